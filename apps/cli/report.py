"""Reports what a model costs, without a server."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import compiler
from apps.cli.recompile import Recompiled, facts_of
from apps.figures import Currency, money_exact_format, plain, unit_price_format, unit_price_scale
from apps.pricing.rating import CONTEXT, Counts, NotPriced, PriceBookDocument, Terms, decimal_text, rate
from apps.pricing.rating.shown import StepShown, step_shown
from apps.pricing.rating.terms import PER_TERA
from compiler.commands.report import Extra
from compiler.commands.tables import markdown


def priced(file: str, book: PriceBookDocument | None, executions: int, *, steps: bool = False) -> Extra:
    """Return what `takt report` adds to the report of each program of a file: its facts and its prices."""

    def extra(made: compiler.Program, form: str) -> tuple[dict[str, Any], list[str]]:
        document = _document(file, made, executions, book)
        return document, _markdown(document) if form == "markdown" else _text(document, steps=steps)

    return extra


def _document(file: str, made: compiler.Program, executions: int, book: PriceBookDocument | None) -> dict[str, Any]:
    machine, report = made.target, made.report()
    precision = report["headline"]["precision"]
    return {
        "model": Path(file).name,
        "sha256": report["digests"]["model"],
        "dims": made.dims,
        "target": machine.name,
        "precision": precision,
        "program": made.digest,
        "clock_hz": machine.clock_hz,
        "executions": executions,
        "prices": prices(facts_of(made), machine.price_class, precision, executions, book) if book else None,
        "currency": book.currency.to_json() if book else None,
        "book": {"version": book.version, "digest": book.digest} if book else None,
    }


def prices(
    facts: Recompiled, processor_class: str, precision: str, executions: int, book: PriceBookDocument
) -> list[dict[str, Any]]:
    """Return the price in each class on offer. An off-peak class is priced at the next off-peak instant."""
    found: list[dict[str, Any]] = []
    for name, price_class in book.classes.items():
        if not price_class.offered:
            continue
        terms = Terms(
            processor_class, precision, name, instant=_off_peak_instant(book) if price_class.off_peak_only else None
        )
        try:
            rating = rate(
                book=book, counts=Counts(facts.operations, facts.interval), executions=executions, terms=terms
            )
        except NotPriced as error:
            found.append(
                {"class": name, "title": price_class.title, "amount": None, "reason": error.missing, "steps": []}
            )
            continue
        found.append(
            {
                "class": name,
                "title": price_class.title,
                "amount": decimal_text(rating.amount),
                "reason": price_class.promise,
                "steps": [step.to_json() for step in rating.steps],
            }
        )
    return found


def _off_peak_instant(book: PriceBookDocument) -> Any:
    from datetime import UTC, datetime, timedelta

    start = datetime(2026, 1, 1, tzinfo=UTC)
    return book.tariff.intervals(start, start + timedelta(days=370))[0][0]


def _text(document: dict[str, Any], *, steps: bool) -> list[str]:
    if document["prices"] is None:
        return ["  price        not priced: give a price book with --book"]
    title, rows = _prices(document)
    lines = [f"  {title}:"]
    for row, (name, price, amount, reason) in zip(document["prices"], rows, strict=True):
        lines.append(f"    {name:<12} {price:>14}  {amount:>26}  {reason}")
        lines += [_step(step_shown(step, document["currency"])) for step in row["steps"] if steps]
    return lines


def _markdown(document: dict[str, Any]) -> list[str]:
    if document["prices"] is None:
        return []
    title, rows = _prices(document)
    per = title.removeprefix("price ").partition(",")[0]
    return [f"{title}:", "", *markdown(("class", per, f"of {document['executions']:,}", ""), rows)]


def _prices(document: dict[str, Any]) -> tuple[str, list[tuple[str, str, str, str]]]:
    """Return the title of the prices, and of each class its title, unit price, exact amount and promise."""
    executions, currency = document["executions"], document["currency"]
    each = [of_one(row["amount"], executions) for row in document["prices"]]
    per, texts = unit_prices(each, currency)
    rows = []
    for row, price in zip(document["prices"], texts, strict=True):
        amount = "" if row["amount"] is None else plain(money_exact_format(row["amount"], currency))
        rows.append((row["title"], price, amount, row["reason"]))
    return f"price {per}, and of {executions:,} exactly, price book {document['book']['version']}", rows


def of_one(amount: str | Decimal | None, executions: int) -> Decimal | None:
    """Return the exact price of one execution; None if there is no price."""
    return None if amount is None else CONTEXT.divide(Decimal(amount), Decimal(executions))


def unit_prices(each: Sequence[Decimal | None], currency: Currency) -> tuple[str, list[str]]:
    """Return the common unit of the prices, such as "per million executions", and each price in this unit."""
    scale = unit_price_scale(each)
    _, per = unit_price_format(0, currency, scale=scale)
    return per, [plain(unit_price_format(one, currency, scale=scale)[0]) for one in each]


def _step(step: StepShown) -> str:
    operation = "times" if step.operation == PER_TERA else step.operation
    return f"      {step.title:<20} {plain(step.input)} {operation} {plain(step.factor)} = {step.result}"
