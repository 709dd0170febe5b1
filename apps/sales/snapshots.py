"""Snapshots of programs in quotes. Later changes to a program do not change the price."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any
from uuid import UUID

from apps.compilation.models import Program
from apps.compilation.selectors import program_load
from apps.pricing.rating import Counts


@dataclass(frozen=True)
class ProgramSnapshot:
    """A compiled program, as stored in a quote line.

    `cycles`: the initiation interval. `latency_cycles`: the time from the start of an execution to its result.
    """

    program_id: str
    digest: str
    model: str
    model_sha256: str
    project_id: str
    project: str
    target: str
    target_digest: str
    precision: str
    dims: dict[str, Any]
    constants: dict[str, Any]
    compiler_version: str
    operations: int
    cycles: int
    latency_cycles: int
    clock_hz: int
    exact: bool
    reason: str
    load: dict[str, int] | None = None  # bytes and cycles of loading; None in quotes from before loading was counted
    calibration: str = ""  # SHA-256 of the calibration examples
    options: dict[str, Any] = field(default_factory=dict)  # states, caches, bounds and the context

    @property
    def counts(self) -> Counts:
        return Counts(operations=self.operations, cycles=self.cycles)

    @property
    def is_quota(self) -> bool:
        return not self.digest

    @property
    def seconds(self) -> Fraction:
        return Fraction(self.cycles, self.clock_hz)

    @property
    def first_seconds(self) -> Fraction:
        return Fraction(max(self.latency_cycles - self.cycles, 0), self.clock_hz)

    @property
    def load_seconds(self) -> Fraction:
        """The time to load the program, in seconds; 0 for old quotes."""
        return Fraction(self.load_cycles, self.clock_hz)

    @property
    def load_cycles(self) -> int:
        """The time to load the program, in processor cycles."""
        return 0 if self.load is None else self.load["cycles_in"]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON. The keys `load` and `options` are left out if they say nothing."""
        return {name: value for name, value in asdict(self).items() if name not in {"load", "options"} or value}

    @staticmethod
    def from_json(document: dict[str, Any]) -> ProgramSnapshot:
        return ProgramSnapshot(**document)


def snapshot_of(program: Program) -> ProgramSnapshot:
    """Return the snapshot of a stored program."""
    version = program.model_version
    return ProgramSnapshot(
        program_id=str(program.id),
        digest=program.digest,
        model=version.model.name,
        model_sha256=version.sha256,
        project_id=str(version.model.project_id),
        project=version.model.project.name,
        target=program.target,
        target_digest=program.target_digest,
        precision=program.precision,
        dims=program.dims,
        constants=program.constants,
        compiler_version=program.compiler_version,
        operations=int(program.operations),
        cycles=int(program.interval_cycles),
        latency_cycles=int(program.latency_cycles),
        clock_hz=int(program.clock_hz),
        exact=program.exact,
        reason=program.reason,
        load=program_load(program),
        calibration=program.calibration_digest,
        options=program.options,
    )


def quota_snapshot(quota: dict[str, Any]) -> ProgramSnapshot:
    """Return the snapshot that represents a quota."""
    return ProgramSnapshot(
        program_id="",
        digest="",
        model=f"any {quota['precision']} program",
        model_sha256="",
        project_id="",
        project="",
        target=quota["target"],
        target_digest="",
        precision=quota["precision"],
        dims={},
        constants={},
        compiler_version="",
        operations=int(quota["operations"]),
        cycles=0,
        latency_cycles=0,
        clock_hz=int(quota["clock_hz"]),
        exact=True,
        reason="",
    )


def snapshot_of_line(line: dict[str, Any]) -> ProgramSnapshot:
    """Read the snapshot of the program or the quota in a stored line."""
    return quota_snapshot(line["quota"]) if line["program"] is None else ProgramSnapshot.from_json(line["program"])


def project_uuid(snapshot: ProgramSnapshot) -> UUID | None:
    """Return the id of the program's project; None for a quota."""
    return UUID(snapshot.project_id) if snapshot.project_id else None
