"""The lines of a quote request: executions of programs, or the operations of a quota."""

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
from apps.sales.snapshots import ProgramSnapshot, snapshot_of_line


@dataclass(frozen=True)
class QuoteRequestLine:
    """One program with its volume: at most `executions`, of which `expected` are expected to run.

    `planned`: True if a plan determined the expected volume. `measured`: True if the customer pays for measured counts,
    up to the worst case.
    """

    snapshot: ProgramSnapshot
    executions: int
    expected: int
    schedule: Schedule | None = None
    measured: bool = False
    commitment: str = NO_COMMITMENT
    commitment_factor: Decimal | None = None
    planned: bool = False

    @property
    def counted(self) -> int:
        # Executions beyond a plan's expected volume do not count, because the customer did not choose them.
        if self.snapshot.is_quota:
            return self.snapshot.operations
        return self.expected if self.planned else self.executions


def request_line_of(line: dict[str, Any], *, planned: bool = False) -> QuoteRequestLine:
    """Read a request line from a stored line. `planned`: True if the quote follows a plan."""
    terms = Terms.from_json(line["rating"]["terms"])
    return QuoteRequestLine(
        snapshot_of_line(line),
        line["executions"],
        line["expected_executions"],
        terms.schedule,
        terms.measured,
        terms.commitment,
        terms.commitment_factor,
        planned,
    )


def request_lines_measured(request_lines: Sequence[QuoteRequestLine], pool: Pool) -> list[QuoteRequestLine]:
    """Return the lines, with `measured` set for each program whose cost depends on its data.

    Raises Problem if no program's cost depends on its data, or if the pool is a host.
    """
    if pool.is_host:
        raise Problem(
            422,
            "Not available on a host",
            f"Cycles on {pool.name} are not proven, so they cannot be charged.",
            kind="measured",
        )
    if all(request_line.snapshot.exact for request_line in request_lines):
        raise Problem(
            422,
            "Nothing to measure",
            "The cost of every program in this quote is exact and does not depend on the data.",
            kind="measured",
        )
    return [replace(request_line, measured=not request_line.snapshot.exact) for request_line in request_lines]


def request_lines_of(document: dict[str, Any]) -> list[QuoteRequestLine]:
    """Read the request lines from a quote's document or a contract's terms."""
    planned = document.get("plan") is not None
    return [request_line_of(line, planned=planned) for line in document["lines"]]


def window_of_document(document: dict[str, Any]) -> Window:
    """Read the window from a quote's document or a contract's terms."""
    window = document["window"]
    return Window(datetime.fromisoformat(window["start"]), datetime.fromisoformat(window["end"]))


def request_lines_merge(request_lines: Sequence[QuoteRequestLine]) -> list[QuoteRequestLine]:
    """Merge lines of the same program by adding their volumes.

    Raises Problem if there are no lines, or if an expected volume exceeds its maximum.
    """
    if not request_lines:
        raise Problem(422, "Nothing to price", "Name at least one program and its executions.", kind="nothing-to-price")
    by_digest: dict[str, QuoteRequestLine] = {}
    for request_line in request_lines:
        known = by_digest.get(request_line.snapshot.digest)
        by_digest[request_line.snapshot.digest] = (
            request_line
            if known is None
            else replace(
                known,
                executions=known.executions + request_line.executions,
                expected=known.expected + request_line.expected,
            )
        )
    for request_line in by_digest.values():
        if not 0 <= request_line.expected <= request_line.executions:
            raise Problem(
                422,
                "Impossible volume",
                "The number of expected executions cannot be greater than the number of executions.",
                kind="volume",
            )
    return list(by_digest.values())
