"""What is asked of a quote: programs or operations, and how many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from apps.accounts.problems import Problem
from apps.fleet.models import Pool
from apps.pricing.limits import Window
from apps.pricing.rating import Schedule, Terms
from apps.pricing.rating.book import NO_COMMITMENT
from apps.sales.facts import ProgramFacts, facts_of_line


@dataclass(frozen=True)
class Ask:
    """One program and how often: `executions` is the most that may be used, `expected` what is expected of it. `planned`:
    a plan measured what is expected, nobody chose it."""

    facts: ProgramFacts
    executions: int
    expected: int
    schedule: Schedule | None = None
    measured: bool = False  # charged is what was measured, at most the worst case
    commitment: str = NO_COMMITMENT
    commitment_factor: Decimal | None = None
    planned: bool = False

    @property
    def counted(self) -> int:
        """The executions, of a quota the operations, that late cancellation counts: what a plan reserves beyond what it
        expects is no choice of the customer's."""
        if self.facts.is_quota:
            return self.facts.operations
        return self.expected if self.planned else self.executions


def ask_of(line: dict[str, Any], *, planned: bool = False) -> Ask:
    """What was asked, from a stored line; `planned`: of a quote that follows a plan."""
    terms = Terms.from_json(line["rating"]["terms"])
    return Ask(
        facts_of_line(line),
        line["executions"],
        line["expected_executions"],
        terms.schedule,
        terms.measured,
        terms.commitment,
        terms.commitment_factor,
        planned,
    )


def asks_measured(asks: Sequence[Ask], pool: Pool) -> list[Ask]:
    """The asks with programs whose cost depends on their data charged as measured. Raises Problem where none is."""
    if pool.is_host:
        raise Problem(
            422,
            "Not on a host",
            f"Cycles on {pool.name} are not proven, so nothing can be charged by them.",
            kind="measured",
        )
    if all(ask.facts.exact for ask in asks):
        raise Problem(
            422,
            "Nothing to measure",
            "Every program here costs exactly what is quoted, whatever its data.",
            kind="measured",
        )
    return [replace(ask, measured=not ask.facts.exact) for ask in asks]


def asks_of(document: dict[str, Any]) -> list[Ask]:
    """What was asked, from a stored quote or terms."""
    planned = document.get("plan") is not None
    return [ask_of(line, planned=planned) for line in document["lines"]]


def window_of_document(document: dict[str, Any]) -> Window:
    """The period of a stored quote or terms."""
    window = document["window"]
    return Window(datetime.fromisoformat(window["start"]), datetime.fromisoformat(window["end"]))


def asks_merge(asks: Sequence[Ask]) -> list[Ask]:
    """One line per program: asking twice for one program is asking for more of it."""
    if not asks:
        raise Problem(
            422, "Nothing to price", "Name at least one program and how often it shall run.", kind="nothing-to-price"
        )
    by_digest: dict[str, Ask] = {}
    for ask in asks:
        known = by_digest.get(ask.facts.digest)
        by_digest[ask.facts.digest] = (
            ask
            if known is None
            else replace(known, executions=known.executions + ask.executions, expected=known.expected + ask.expected)
        )
    for ask in by_digest.values():
        if not 0 <= ask.expected <= ask.executions:
            raise Problem(422, "Impossible volume", "No more can be expected than is the worst case.", kind="volume")
    return list(by_digest.values())
