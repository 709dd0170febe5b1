"""The work of a quote request: executions of programs, or a quota of operations."""

from __future__ import annotations

from typing import NamedTuple

from apps.compilation.models import Program


class QuoteLine(NamedTuple):
    """A program and its volume.

    `expected`: the expected number of executions. `planned`: True if a plan determined `expected`.
    """

    program: Program
    executions: int
    expected: int | None = None
    planned: bool = False


class Quota(NamedTuple):
    """A quota of tera-operations for programs in one precision."""

    precision: str
    tera_operations: int
