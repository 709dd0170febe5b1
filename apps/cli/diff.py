"""`takt diff`: shows how a change to a model affects cost and, if a price book is given, price."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import compiler
from apps.cli.recompile import Recompiled
from apps.cli.report import of_one, prices, unit_prices
from apps.pricing.rating import PriceBookDocument
from compiler.difference import PRICE, Figure
from compiler.sources import version_name


def price_figures(
    book: PriceBookDocument, executions: int
) -> Callable[[compiler.Program | None, compiler.Program], list[Figure]]:
    """Return a function that compares the prices of two programs in every class of the price book.

    The older program is None if the model is new.
    """

    def figures(old: compiler.Program | None, new: compiler.Program) -> list[Figure]:
        before = {} if old is None else _prices(old, book, executions)
        found, currency = [], book.currency.to_json()
        for name, (title, amount) in _prices(new, book, executions).items():
            both = before[name][1] if name in before else None, amount
            per, (old_price, new_price) = unit_prices([of_one(one, executions) for one in both], currency)
            told = f"price {per}, {title}", old_price, new_price
            found.append(Figure(f"{PRICE}{name}", f"price of {executions:,}, {title}", book.currency.code, *both, told))
        return found

    return figures


def _prices(
    program: compiler.Program, book: PriceBookDocument, executions: int
) -> dict[str, tuple[str, Decimal | None]]:
    head = program.report()["headline"]
    facts = Recompiled(
        program.digest,
        head["target_digest"],
        version_name(head["compiler_version"]),
        head["operations"],
        head["interval_cycles"],
        head["latency_cycles"],
        head["exact"],
    )
    rows = prices(facts, head["price_class"], head["precision"], executions, book)
    return {r["class"]: (r["title"], None if r["amount"] is None else Decimal(r["amount"])) for r in rows}
