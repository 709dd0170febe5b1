"""Reports what a model costs, without a server."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import compiler
from apps.cli.recompile import Recompiled, facts_of, model_of
from apps.figures import Currency, money_exact_format, plain, unit_price_format, unit_price_scale
from apps.pricing.rating import CONTEXT, Counts, NotPriced, PriceBookDocument, Terms, decimal_text, rate
from apps.pricing.rating.shown import StepShown, step_shown
from apps.pricing.rating.terms import PER_TERA
from compiler.commands import files, listing
from compiler.commands.options import compiled


def reports(path: Path, options: argparse.Namespace, book: PriceBookDocument | None) -> list[dict[str, Any]]:
    """Return one report for each combination of sizes of the variable dimensions. Raises compiler.ModelError."""
    file = model_of(path, files.read(path, "", "a model"))
    made = compiled(path, options)
    programs = made.programs if isinstance(made, compiler.Bundle) else (made,)
    sizes = made.dims if isinstance(made, compiler.Bundle) else (made.dims,)
    return [
        {"model": file.name, "sha256": file.sha256, "dims": dims} | _report(program, options, book)
        for dims, program in zip(sizes, programs, strict=True)
    ]


def _report(made: compiler.Program, options: argparse.Namespace, book: PriceBookDocument | None) -> dict[str, Any]:
    machine, precision, executions = made.target, options.precision, options.executions
    return {
        "target": machine.name,
        "precision": precision,
        "program": made.digest,
        "clock_hz": machine.clock_hz,
        "resources": made.resources.to_json(),
        "accuracy": made.report()["accuracy"],
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


def text(document: dict[str, Any], *, steps: bool = False) -> str:
    """Return the report as text for people."""
    resources = document["resources"]
    kind = "exact" if resources["exact"] else f"bound: {resources['reason']}"
    sizes = "".join(f", {name} {size}" for name, size in document["dims"].items())
    lines = [
        f"{document['model']}{sizes} on {document['target']} in {document['precision']} ({kind})",
        f"  program     {document['program']}",
        f"  operations  {resources['operations']:,}",
        f"  latency     {resources['cycles']:,} cycles = {_microseconds(resources['cycles'], document['clock_hz'])} us",
        f"  interval    {resources['interval']:,} cycles",
        f"  memory      {resources['storage']['total']:,} bytes",
        f"  IO          {resources['io']['bytes_in']:,} bytes in, {resources['io']['bytes_out']:,} bytes out",
        _loading(resources["load"], document["clock_hz"]),
        *listing.accuracy(document["accuracy"]),
    ]
    if document["prices"] is None:
        return "\n".join([*lines, "  price       not priced: give a price book with --book"]) + "\n"
    executions, currency = document["executions"], document["currency"]
    each = [of_one(row["amount"], executions) for row in document["prices"]]
    per, texts = unit_prices(each, currency)
    lines.append(f"  price {per}, and of {executions:,} exactly, price book {document['book']['version']}:")
    for row, price in zip(document["prices"], texts, strict=True):
        amount = "" if row["amount"] is None else money_exact_format(row["amount"], currency)
        lines.append(f"    {row['title']:<12} {price:>14}  {plain(amount):>26}  {row['reason']}")
        lines += [_step(step_shown(step, currency)) for step in row["steps"] if steps]
    return "\n".join(lines) + "\n"


def _loading(load: dict[str, int], clock_hz: int) -> str:
    time = _microseconds(load["cycles_in"], clock_hz)
    return f"  loading     {load['bytes_in']:,} bytes, {load['cycles_in']:,} cycles = {time} us before the first item"


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


def _microseconds(cycles: int, clock_hz: int) -> str:
    nanoseconds = cycles * 10**9 // clock_hz
    return f"{nanoseconds // 1000:,}.{nanoseconds % 1000:03d}"
