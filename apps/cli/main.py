"""The command `takt`, which runs offline on the customer's own machine."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import compiler
from apps.cli.agreement import Difference, Unreadable
from apps.cli.chain import chain_verify
from apps.cli.diff import price_figures
from apps.cli.measuring import command as measuring
from apps.cli.planning import command as planning
from apps.cli.planning.reading import FileFault
from apps.cli.recompile import ModelFile, model_of
from apps.cli.report import priced
from apps.cli.review import command as reviewing
from apps.cli.verify import verify
from apps.pricing.rating import BookError, PriceBookDocument, RatingError, book_from_text
from apps.pricing.rating.book import FORMAT
from compiler.__main__ import add_commands, run
from compiler.commands import completion, diff, files, report
from compiler.commands.guard import Parser, guarded
from compiler.commands.options import at_least

RIGHT, WRONG, UNUSABLE, PARTLY = 0, 1, 2, 3
JSON_BYTES = 2**30  # maximum size of a document: a chain of millions of rows
DOWNLOAD = "name an invoice or a quote first; if this is one, download it again with the JSON button on its page"
LEDGER = "download the chain again, under Portal, Ledger"
DOCUMENT = "an invoice or a quote, as JSON: the button JSON of its page gives it"
CHAIN = "the ledger's chain, as JSON: Portal, Ledger gives it"
BOOK = "a price book, as JSON: download it under Prices, or from /api/v1/price-books/current"
PRICES = "download the price book under Prices, or from /api/v1/price-books/current"


class Refused(Exception):
    """Raised if the command cannot run. The message says what to do."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status.

    0: no difference. 1: a difference was found. 2: the input cannot be checked. 3: no difference, but some parts could
    not be checked.
    """
    expected = (Refused, Unreadable, RatingError, FileFault)
    return guarded(lambda: parser().parse_args(arguments), run, prefix="takt", failed=UNUSABLE, expected=expected)


def parser() -> argparse.ArgumentParser:
    """Build the parser of the command line."""
    whole = Parser(
        prog="takt",
        description="Compile models, know their cost and price, make plans, and verify invoices, all from local files.",
    )
    whole.begin()
    commands = whole.add_subparsers(metavar="COMMAND")
    add_commands(commands)
    show, both = commands.choices["report"], commands.choices["diff"]
    show.set_defaults(run=_report)
    show.add_argument("--steps", action="store_true", help="print every step of every price")
    both.set_defaults(run=_diff)
    for command in (show, both):
        _add_prices(command)
    _add_verify(commands)

    change = commands.add_parser(
        "review", help="compare every model that a branch changes, for its review", description=reviewing.ABOUT
    )
    reviewing.add_options(change)
    change.set_defaults(run=lambda options: reviewing.review(options, _book))

    measure = commands.add_parser(
        "measure", help="measure a model on this machine and write a dated file", description=measuring.ABOUT
    )
    measuring.add_options(measure)
    measure.set_defaults(run=measuring.measure)

    plan = commands.add_parser(
        "plan", help="find the cheapest way to do a task; check whether a change still fits", description=planning.ABOUT
    )
    planning.add_options(plan)
    plan.set_defaults(run=planning.plan)

    completion.add_command(commands, parser, "takt")
    return whole


def _add_verify(commands: Any) -> None:
    check = commands.add_parser(
        "verify",
        help="recompute an invoice or a quote from the model and the price book",
        description="Compiles the model again and recomputes every step and amount. Prints what was checked, or the first "
        "difference. Needs no network. Exit status: 0 correct, 1 different, 2 not checked (for example, a price book is "
        "missing), 3 correct but only partly checked (a model is missing, or the chain file has an older format).",
    )
    check.add_argument("document", type=Path, nargs="?", help="the invoice or quote, as JSON")
    check.add_argument(
        "--chain", type=Path, help="the ledger's chain, as JSON: check its hashes, usage rows, head and day roots"
    )
    check.add_argument(
        "files",
        type=Path,
        nargs="*",
        help="the model (or models), every price book that a line was priced with, and the ranges.json of calibrated "
        "programs, in any order",
    )
    check.add_argument("--json", action="store_true", help="print the result as JSON")
    check.set_defaults(run=_verify)


def _add_prices(command: argparse.ArgumentParser) -> None:
    command.add_argument("--book", type=Path, help="a price book, as JSON; without it no price is shown")
    command.add_argument(
        "--executions", type=at_least(1), default=1000, help="number of executions to price exactly (default: 1000)"
    )


def _verify(options: argparse.Namespace) -> int:
    if options.document is None and options.chain is None:
        raise Refused("Give an invoice or a quote, or a chain with --chain.")
    checked: list[str] = []
    partial: list[str] = []
    names: list[str] = []
    try:
        if options.chain is not None:
            checked, partial = chain_verify(_json(options.chain, CHAIN, "--chain", LEDGER))
            names.append("chain")
        if options.document is not None:
            document = _json(options.document, DOCUMENT)
            models, books, ranges = _sorted(options.files)
            done = verify(document, models=models, books=books, ranges=ranges)
            checked, partial = [*checked, *done.checked], [*partial, *done.partial]
            names.append(str(document.get("number") or document.get("id", "")))
    except RecursionError as error:
        raise Refused(f"A document is nested too deeply; {DOWNLOAD}.") from error
    except Difference as error:
        result = {"verified": False, "place": error.place, "stated": str(error.stated), "computed": str(error.computed)}
        _print(options.json, result, f"DIFFERENT. {error}.\n")
        return WRONG
    lines = [*checked, *partial, f"{'verified in part' if partial else 'verified'}: {', '.join(names)}"]
    result = {"verified": not partial, "checked": checked, "partial": partial}
    _print(options.json, result, "\n".join(lines) + "\n")
    return PARTLY if partial else RIGHT


def _report(options: argparse.Namespace) -> None:
    book = _book(options.book, "--book") if options.book is not None else None
    report.run(options, priced(options.file, book, options.executions, steps=options.steps))


def _diff(options: argparse.Namespace) -> int:
    book = _book(options.book, "--book") if options.book is not None else None
    prices = price_figures(book, options.executions) if book is not None else None
    return diff.run(options, prices)


def _print(as_json: bool, document: dict[str, Any] | list[dict[str, Any]], words: str) -> None:
    sys.stdout.write(json.dumps(document, indent=1) + "\n" if as_json else words)


def _sorted(paths: Sequence[Path]) -> tuple[list[ModelFile], list[PriceBookDocument], list[compiler.Calibration]]:
    models, books, ranges = [], [], []
    for path in paths:
        data = _read(path, "a model, a price book, or the ranges.json of a report")
        if data.lstrip()[:1] == b"{" and b'"ranges"' in data and b'"loss"' in data:
            ranges.append(compiler.Calibration.from_json(data.decode("utf-8", "replace")))
        elif data.lstrip()[:1] == b"{":
            books.append(_book(path))
        else:
            models.append(model_of(path, data))
    if not books:
        raise Refused("No price book is given; download one under Prices or from /api/v1/price-books/current.")
    return models, books, ranges


def _read(path: Path, what: str, option: str = "", most: int | None = None) -> bytes:
    try:
        if most is not None and path.stat().st_size > most:
            raise Refused(f"{path} has more than {most:,} bytes; documents of Takt are shorter.")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise Refused(f"{files.unreadable(path, error, option, what)}.") from error


def _json(path: Path, what: str, option: str = "", remedy: str = DOWNLOAD) -> dict[str, Any]:
    try:
        document = json.loads(_read(path, what, option, JSON_BYTES))
    except (ValueError, RecursionError) as error:
        raise Refused(f"{path} is not JSON, or it is cut off; {remedy}.") from error
    if not isinstance(document, dict):
        raise Refused(f"{path} is not a document of Takt; {remedy}.")
    return document


def _book(path: Path, option: str = "") -> PriceBookDocument:
    document = _json(path, BOOK, option, PRICES)
    inner = document.get("document")
    kind = (inner if isinstance(inner, dict) else document).get("format")
    if kind != FORMAT:
        raise Refused(f"{path} is not a price book: its format is {kind!r}, not {FORMAT!r}; {PRICES}.")
    try:
        return book_from_text(json.dumps(inner if isinstance(inner, dict) else document))
    except BookError as error:
        raise Refused(f"{path}: {error}") from error


if __name__ == "__main__":
    sys.exit(main())
