"""Compares each model of a change with the one before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import compiler
from apps.cli.diff import price_figures
from apps.cli.review.repository import Repository
from apps.cli.review.settings import EVERY, Model
from apps.pricing.rating import PriceBookDocument
from compiler.bundle import combinations
from compiler.commands import examples
from compiler.commands.changes import rendered, verdict
from compiler.commands.tables import escaped
from compiler.commands.tables import markdown as table
from compiler.commands.words import spoken
from compiler.difference import Budget, Difference, difference
from compiler.driver import Stage

CHANGED, UNCHANGED, NEW, REMOVED, FAILED = "changed", "unchanged", "new", "removed", "not compared"


@dataclass(frozen=True)
class Reviewed:
    """The verdict on one model at one size. `found` is None if nothing was compared."""

    title: str
    state: str
    said: str
    found: Difference | None = None

    @property
    def is_over(self) -> bool:
        """Whether the model exceeds its budget."""
        return self.found is not None and bool(self.found.over)

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as plain data."""
        facts = {"model": self.title, "state": self.state, "verdict": self.said, "over_budget": self.is_over}
        return facts | {"difference": self.found.to_json() if self.found else None}

    def markdown(self) -> str:
        """Return the difference as Markdown, below a heading; nothing if there is none to show."""
        if self.found is None or not (self.found.changed or self.found.over):
            return ""
        return rendered(self.found, "markdown")


@dataclass(frozen=True)
class Limits:
    """What the models of an entry may cost, and the price book that prices them."""

    budget: Budget | None = None
    book: PriceBookDocument | None = None


def reviewed(
    repository: Repository, entry: Model, limits: Limits, on_stage: Stage, *, is_fixed: bool
) -> Iterator[Reviewed]:
    """Yield a verdict on each model that an entry of the settings names, at each of its sizes.

    A model that is the same before is not compiled if `is_fixed`: the settings and the files that they name are the same too.
    """
    names = repository.matching(entry.pattern)
    if not names and entry.pattern != EVERY:
        yield Reviewed(entry.pattern, FAILED, "No file of the repository has this name.")
    for name in names:
        about = f"{name} ({entry.target_name}, {entry.precision})"
        if not (repository.root / name).is_file():
            yield Reviewed(about, REMOVED, "Removed.")
        elif is_fixed and repository.is_same(name):
            yield Reviewed(about, UNCHANGED, "Unchanged.")
        else:
            on_stage(name)
            for dims in combinations(dict(entry.dims)):
                sizes = "".join(f", {one} {size}" for one, size in dims.items())
                title = f"{name}{sizes} ({entry.target_name}, {entry.precision})"
                yield _of_one(repository, name, title, entry, dims, limits)


def _of_one(
    repository: Repository, name: str, title: str, entry: Model, dims: dict[str, int], limits: Limits
) -> Reviewed:
    note = ""
    try:
        new = _compiled(repository.fetched(repository.root, name), entry, dims)
        old = None
        if (repository.before / name).is_file():
            earlier = repository.fetched(repository.before, name)
            try:
                old = _compiled(earlier, entry, dims)
            except compiler.ModelError as error:
                note = f" The model before cannot be compiled: {error.told(spoken)}"
        prices = price_figures(limits.book, entry.executions)(old, new) if limits.book is not None else ()
        found = difference(old, new, prices, limits.budget)
    except compiler.ModelError as error:
        return Reviewed(title, FAILED, f"Not compared: {error.told(spoken)}")
    if not found.changed and not found.over:
        return Reviewed(title, UNCHANGED, "The cost is the same.", found)
    return Reviewed(title, CHANGED if old else NEW, f"{verdict(found)}{note}", found)


def _compiled(path: Path, entry: Model, dims: dict[str, int]) -> compiler.Program:
    states = list(entry.states.items())
    graph = compiler.load(path, dims, entry.constants, states=states, bounds=entry.bounds, context=entry.context)
    feeds = examples.feeds(graph, entry.examples) if entry.precision != "float32" else None
    return compiler.compile(graph, entry.target, entry.precision, feeds, objective=entry.objective)


def markdown(rows: Sequence[Reviewed], *, most: int) -> str:
    """Return the review as Markdown of at most `most` characters: a table of verdicts, then each difference."""
    if not rows:
        return "No model was found.\n"
    lines = [*table(("model", "verdict"), [(row.title, row.said) for row in rows], left=2), ""]
    text = "\n".join(lines)
    for row in rows:
        part = row.markdown()
        section = f"\n#### {escaped(row.title)}\n\n{part}" if part else ""
        if len(text) + len(section) > most:
            return f"{text}\nThe other differences are too long to be shown here; the log of the check has them.\n"
        text += section
    return text
