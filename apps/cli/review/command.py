"""The options of `takt review`, and what the command prints."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from apps.cli.review.comment import GITHUB_MOST, CommentFault, comment_write, forge_of
from apps.cli.review.models import FAILED, UNCHANGED, Limits, Reviewed, markdown, reviewed
from apps.cli.review.repository import Repository, repository_open
from apps.cli.review.settings import Model, settings_read
from apps.pricing.rating import PriceBookDocument
from compiler import targets
from compiler.commands import files
from compiler.commands.diff import budget_of
from compiler.commands.options import add_progress
from compiler.commands.progress import shown
from compiler.driver import Stage

WITHIN, OVER, PARTLY = 0, 1, 2
SETTINGS = "takt.toml"
ABOUT = (
    "Compares every model that a branch changes with the one before, and prints Markdown for its review. Settings are in "
    f"{SETTINGS} at the root of the repository: models, target, precision, dims, budget, book. Exit status 1 when a model is "
    "over its budget, 2 when one cannot be compared. docs/how-to/review-a-model-change.md describes it."
)
BookReader = Callable[[Path], PriceBookDocument]


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `takt review`."""
    command.add_argument("--base", required=True, metavar="COMMIT", help="the commit before the change")
    command.add_argument("--settings", metavar="TOML", help=f"default: {SETTINGS} at the root, if there is one")
    command.add_argument("--comment", action="store_true", help="write the comment of the pull request, or update it")
    command.add_argument("-o", "--output", metavar="FILE", help="write the Markdown there too")
    command.add_argument("--json", action="store_true", help="print data instead of Markdown")
    add_progress(command)


def review(options: argparse.Namespace, book_read: BookReader, environment: Mapping[str, str] = os.environ) -> int:
    """Compare the models, print the verdicts and write the comment. Raises ModelError and FileFault."""
    with repository_open(options.base, Path.cwd()) as repository, shown(options.progress) as on_stage:
        rows = _rows(repository, options.settings, book_read, on_stage)
    text = markdown(rows, most=GITHUB_MOST)
    if options.output is not None:
        files.write(options.output, text.encode(), "--output")
    sys.stdout.write(json.dumps([row.to_json() for row in rows], indent=1) + "\n" if options.json else text)
    if options.comment:
        _comment(text, environment, is_needed=any(row.state != UNCHANGED for row in rows))
    if any(row.state == FAILED for row in rows):
        return PARTLY
    return OVER if any(row.is_over for row in rows) else WITHIN


def _rows(repository: Repository, stated: str | None, book_read: BookReader, on_stage: Stage) -> list[Reviewed]:
    """Return the verdict on each model. All settings are read before a model is compiled."""
    path = (repository.root / SETTINGS if stated is None else Path(stated)).resolve()
    is_there = stated is not None or path.is_file()
    entries = settings_read(path) if is_there else [Model()]
    limits = [_limits(entry, book_read) for entry in entries]
    rows: list[Reviewed] = []
    for entry, limit in zip(entries, limits, strict=True):
        named = [*entry.files, *([str(path)] if is_there else [])]
        is_fixed = all(map(repository.is_same_file, named))
        rows += reviewed(repository, entry, limit, on_stage, is_fixed=is_fixed)
    return rows


def _limits(entry: Model, book_read: BookReader) -> Limits:
    """Return the budget and the price book of an entry. Raises ModelError if one of them or the processor cannot be used."""
    targets.resolve(entry.target)
    book = None if entry.book is None else book_read(Path(entry.book))
    return Limits(None if entry.budget is None else budget_of(entry.budget, priced=book is not None), book)


def _comment(text: str, environment: Mapping[str, str], *, is_needed: bool) -> None:
    """Write the comment, and say so. A token that may not do so is no reason to fail: forks have none."""
    try:
        done = f"the comment is {comment_write(text, forge_of(environment), is_needed=is_needed)}"
    except CommentFault as error:
        done = f"the comment is not written: {error}"
    sys.stderr.write(f"takt: {done}\n")
