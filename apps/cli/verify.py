"""Recomputes an invoice or a quote from the models and price books."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from apps.cli.adjustments import adjustment_verify
from apps.cli.agreement import Difference, Unreadable, books_given, rated, same, steps_same
from apps.cli.late import late_verify
from apps.cli.months import MonthsCheck
from apps.cli.recompile import ModelFile, Recompiled, recompile
from apps.pricing.rating import (
    RULES,
    PriceBookDocument,
    decimal_text,
    digest_of,
    exact_sum,
    multiply,
    payable_of,
    shares_of,
)
from apps.pricing.rating.decimals import subtract
from apps.pricing.rating.terms import QUOTA
from compiler import Calibration, ModelError

INVOICE, QUOTE = "takt-invoice/1", "takt-quote/1"


@dataclass
class Verification:
    """The result of a verification.

    `partial` lists the lines whose counts were not recomputed.
    """

    checked: list[str] = field(default_factory=list)
    partial: list[str] = field(default_factory=list)


def verify(
    document: dict[str, Any],
    *,
    models: Sequence[ModelFile],
    books: Sequence[PriceBookDocument],
    ranges: Sequence[Calibration] = (),
) -> Verification:
    """Recompute a document. Raises Difference at the first deviation, and Unreadable if something cannot be checked."""
    if document.get("format") not in (INVOICE, QUOTE):
        raise Unreadable(
            f"The document's format is {document.get('format')!r}; this command reads {INVOICE} and {QUOTE}."
        )
    digest = _digest_checked(document)
    try:
        done = _computed(document, models, {book.digest: book for book in books}, ranges)
    except Unreadable:
        if isinstance(digest, Difference):
            raise digest from None
        raise
    if isinstance(digest, Difference):
        raise digest
    return Verification([*digest, *done.checked], done.partial)


def _digest_checked(document: dict[str, Any]) -> list[str] | Difference:
    stated = document.get("digest")
    try:
        computed = digest_of({key: value for key, value in document.items() if key != "digest"})
    except UnicodeError as error:
        raise Unreadable("The document cannot be read: it contains an unpaired surrogate.") from error
    except TypeError as error:
        raise Unreadable(f"The document cannot be read: {error}.") from error
    if stated is None:
        return []
    if stated != computed:
        return Difference("digest of the document, which was changed somewhere after it was written", stated, computed)
    return [f"digest of the document: {computed}"]


def _computed(
    document: dict[str, Any],
    models: Sequence[ModelFile],
    books: dict[str, PriceBookDocument],
    ranges: Sequence[Calibration],
) -> Verification:
    done = Verification()
    try:
        books_given(document, books)
        _lines(document, models, books, ranges, done)
        if document["format"] == QUOTE:
            done.checked += late_verify(document, books)
        months = _months(document, books, done)
        _totals(document, months, done)
        _comparisons(document, done)
    except KeyError as error:
        raise Unreadable(
            f"The document lacks a field that the format {document['format']} requires: {error}."
        ) from error
    except (TypeError, AttributeError, IndexError, ValueError) as error:
        raise Unreadable(
            f"A field of the document has a type that the format {document['format']} does not allow."
        ) from error
    except ArithmeticError as error:  # not a number, or an impossible amount
        raise Unreadable("The document contains an amount that is not a number.") from error
    return done


def _months(document: dict[str, Any], books: dict[str, PriceBookDocument], done: Verification) -> MonthsCheck | None:
    rules = document.get("rules", 1)
    if rules not in (1, RULES):
        raise Unreadable(
            f"The invoice was issued under version {rules} of the rules; this command supports versions 1 and {RULES}."
        )
    if rules == 1:
        for adjustment in document.get("adjustments", []):
            done.checked.append(adjustment_verify(document, adjustment, books))
        return None
    months = MonthsCheck(document, books)
    done.checked += months.run()
    return months


def _lines(
    document: dict[str, Any],
    models: Sequence[ModelFile],
    books: dict[str, PriceBookDocument],
    ranges: Sequence[Calibration],
    done: Verification,
) -> None:
    by_digest = {model.sha256: model for model in models}
    compiled: dict[str, Recompiled] = {}
    for number, line in enumerate(document["lines"], 1):
        same(f"number of line {number}", line["number"], number)
        _line_program(line, by_digest, ranges, compiled, done)
        _line_price(line, document["currency"], books, done)
    for line in _minimum(document):
        lacking = exact_sum(Decimal(one["amount"]) for one in document["lines"])
        same("contract minimum, sum of the lines", line["rating"]["charged"], decimal_text(lacking))
        _line_price(line, document["currency"], books, done)
    named = {line["program"]["model_sha256"] for line in document["lines"] if line["program"] is not None}
    strange = [model for model in models if model.sha256 not in named]
    done.checked += [f"{model.name} belongs to no line; its SHA-256 is {model.sha256[:16]}..." for model in strange]


def _minimum(document: dict[str, Any]) -> list[dict[str, Any]]:
    if document["format"] != QUOTE or "minimum" not in document:
        return []
    return [{**document["minimum"], "number": len(document["lines"]) + 1, "executions": 1}]


def _line_program(
    line: dict[str, Any],
    models: dict[str, ModelFile],
    ranges: Sequence[Calibration],
    compiled: dict[str, Recompiled],
    done: Verification,
) -> None:
    program, place = line["program"], f"line {line['number']}"
    counts = line["rating"]["counts"]
    if "charged" in line["rating"]:
        same(f"{place}, operations of a contract's minimum", counts, {"operations": 0, "cycles": 0})
        return
    if program is None:
        # A quota is a number of operations for any program.
        same(f"{place}, form of a line without a program", line["rating"]["terms"].get("form"), QUOTA)
        done.checked.append(f"{place}: a quota of {counts['operations']:,} operations, for any program")
        return
    same(f"{place}, operations of one execution", counts["operations"], program["operations"])
    same(f"{place}, cycles of one execution", counts["cycles"], program["cycles"])
    model = models.get(program["model_sha256"])
    if model is None:
        done.partial.append(
            f"{place}: no file with SHA-256 {program['model_sha256'][:16]}... ({program['model']}) was given; its counts were "
            "not recomputed"
        )
        return
    if program["digest"] not in compiled:
        try:
            compiled[program["digest"]] = recompile(model, program, ranges)
        except ModelError as error:
            raise Unreadable(f"{place}: {model.name} cannot be compiled as the line says: {error.told()}") from error
    again = compiled[program["digest"]]
    if again.digest != program["digest"] and again.compiler_version != program["compiler_version"]:
        raise Unreadable(
            f"The program of {place} was compiled with compiler version {program['compiler_version']}. This command "
            f"contains compiler version {again.compiler_version}, which produces a different program. "
            "Use a `takt` command with the compiler version that the document names."
        )
    if program.get("calibration") and again.digest != program["digest"]:
        done.partial.append(
            f"{place}: {program['model']} in {program['precision']} was calibrated on your own examples; give the ranges.json of "
            "its report to recompute its counts"
        )
        return
    _program_same(place, program, again)
    done.checked.append(
        f"{place}: {model.name} compiled for {program['target']} in {program['precision']} gives program "
        f"{again.digest[:16]}... with {again.operations:,} operations and {again.interval:,} cycles"
    )


def _program_same(place: str, program: dict[str, Any], again: Recompiled) -> None:
    same(f"{place}, description of {program['target']}", program["target_digest"], again.target_digest)
    same(f"{place}, operations of one execution", program["operations"], again.operations)
    same(f"{place}, cycles between two executions", program["cycles"], again.interval)
    same(f"{place}, latency in cycles", program["latency_cycles"], again.latency)
    if program.get("load") is not None:  # older quotes do not state loading
        same(f"{place}, loading", program["load"], again.load)
    if again.digest != program["digest"]:
        raise Difference(
            f"{place}, digest of the program of compiler {again.compiler_version}",
            program["digest"],
            again.digest,
        )


def _line_price(
    line: dict[str, Any], currency: dict[str, Any], books: dict[str, PriceBookDocument], done: Verification
) -> None:
    place, stated = f"line {line['number']}", line["rating"]
    book = books.get(stated["book_digest"])
    if book is None:
        given = ", ".join(f"version {known.version} ({digest[:16]}...)" for digest, known in books.items())
        raise Difference(
            f"{place}, price book",
            f"version {stated['book_version']} ({stated['book_digest'][:16]}...)",
            given or "none given",
        )
    same("currency", digest_of(currency), digest_of(book.currency.to_json()))
    same(f"{place}, executions", line["executions"], stated["executions"])
    if "pool" in line:  # older documents do not name it
        same(
            f"{place}, processor class of the pool", line["pool"]["processor_class"], stated["terms"]["processor_class"]
        )
    rating = rated(book, stated)
    steps_same(place, stated["steps"], rating.to_json()["steps"])
    same(f"{place}, amount of the rating", stated["amount"], decimal_text(rating.amount))
    same(f"{place}, amount", line["amount"], decimal_text(rating.amount))
    same(f"{place}, everything else about the price", _rest(stated), _rest(rating.to_json()))
    rows = line.get("usage", [])
    whole = stated.get("measured") is None and stated.get("periods") is None
    for number, row in enumerate(rows, 1):
        if whole:  # then every lease of the line has the same price
            amount = rated(book, stated | {"executions": row["executions"]}).amount
            same(f"{place}, usage row {number}, amount", row["amount"], decimal_text(amount))
    if rows:
        same(
            f"{place}, amounts of all usage rows",
            line["amount"],
            decimal_text(exact_sum(Decimal(row["amount"]) for row in rows)),
        )
        same(f"{place}, executions of all usage rows", line["executions"], sum(row["executions"] for row in rows))
        done.checked.append(f"{place}: {len(rows)} usage rows sum to {line['executions']:,} executions")
    done.checked.append(f"{place}: {len(rating.steps)} steps give {line['amount']} {rating.currency}")


def _rest(rating: dict[str, Any]) -> str:
    return digest_of({key: value for key, value in rating.items() if key not in {"steps", "amount"}})


def _totals(document: dict[str, Any], months: MonthsCheck | None, done: Verification) -> None:
    lines = [*document["lines"], *_minimum(document), *document.get("adjustments", [])]
    amounts = [Decimal(line["amount"]) for line in lines]
    net = exact_sum(amounts)
    same("net", document["net"], decimal_text(net))
    exponent = document["currency"]["exponent"]
    if months is not None:
        pairs = months.totals()
    elif document["format"] == QUOTE:
        pairs = _quote_totals(net, exponent)
    else:
        pairs = _invoice_totals(document, amounts, exponent)
    for name, value in pairs:
        same(name, document[name], decimal_text(value))
    done.checked.append(
        f"net {document['net']}, payable {document['payable']} {document['currency']['code']}, rounded once"
    )


def _comparisons(document: dict[str, Any], done: Verification) -> None:
    rows = document.get("quoted_against_actual", [])
    for line in document["lines"]:
        if "charged" in line["rating"]:
            _whole_contract(line, rows)
    for number, row in enumerate(rows, 1):
        place = f"quoted against actual, contract {number}"
        difference = subtract(Decimal(row["actual"]), Decimal(row["quoted"]))
        same(f"{place}, difference", row["difference"], decimal_text(difference))
        named = exact_sum(Decimal(one["amount"]) for one in row["named"])
        same(f"{place}, named parts of the difference", decimal_text(named), decimal_text(difference))
    if rows:
        done.checked.append(f"quoted against actual: {len(rows)} contracts, every difference named")


def _whole_contract(line: dict[str, Any], rows: Sequence[dict[str, Any]]) -> None:
    whole = next(row["actual"] for row in rows if row["contract"] == line["contract"])
    all_else = decimal_text(subtract(Decimal(whole), Decimal(line["amount"])))
    same(f"line {line['number']}, amount of the contract's use", line["rating"]["charged"], all_else)


def _quote_totals(net: Decimal, exponent: int) -> Iterator[tuple[str, Decimal]]:
    rounded = payable_of(net, exponent=exponent)
    yield "payable", rounded.payable
    yield "carried", rounded.carried


def _invoice_totals(document: dict[str, Any], amounts: list[Decimal], exponent: int) -> Iterator[tuple[str, Decimal]]:
    carried_in = Decimal(document["carried_in"])
    total = exact_sum([*amounts, carried_in])
    yield "total", total
    rounded = payable_of(total, exponent=exponent)
    yield "payable", rounded.payable
    yield "correction", rounded.correction
    yield "carried_out", rounded.carried
    tax = payable_of(multiply(rounded.payable, Decimal(document["tax_rate"])), exponent=exponent).payable
    yield "tax", tax
    yield "due", exact_sum([rounded.payable, tax])
    shares = shares_of(rounded.payable, [*amounts, carried_in], exponent=exponent)
    for line, share in zip(document["lines"], shares, strict=False):
        same(f"line {line['number']}, share of the rounded total", line["share"], decimal_text(share))
    for item, share in zip(document.get("adjustments", []), shares[len(document["lines"]) :], strict=False):
        same(f"adjustment {item['number']}, share of the rounded total", item["share"], decimal_text(share))
    yield "carried_in_share", shares[-1]
