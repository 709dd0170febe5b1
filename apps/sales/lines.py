"""What a quote can be requested for: executions of programs, or a quota of operations."""

from __future__ import annotations

from typing import NamedTuple

from apps.compilation.models import Program


class QuoteLine(NamedTuple):
    """A program and its volume; `expected` when fewer executions are expected than the worst case (a cascade), `planned`
    when a plan says so."""

    program: Program
    executions: int
    expected: int | None = None
    planned: bool = False


class Quota(NamedTuple):
    """So many tera-operations of any program in one precision."""

    precision: str
    tera_operations: int
