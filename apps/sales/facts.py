"""What a quote says about a program: copied once, so that nothing that happens to the program later changes a price."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any
from uuid import UUID

from apps.compilation.models import Program
from apps.compilation.selectors import program_load
from apps.pricing.rating import Counts


@dataclass(frozen=True)
class ProgramFacts:
    """A compiled program as a line of a quote names it. `cycles` is the initiation interval: how long one execution
    keeps the device to itself; `latency_cycles` is how long its result takes."""

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
    load: dict[str, int] | None = None  # bytes and cycles of loading; None in what was quoted before they were counted
    calibration: str = ""  # SHA-256 of the examples from which a narrow precision took its ranges

    @property
    def counts(self) -> Counts:
        """What rating needs of one execution."""
        return Counts(operations=self.operations, cycles=self.cycles)

    @property
    def is_quota(self) -> bool:
        """Operations of any program, not executions of one."""
        return not self.digest

    @property
    def seconds(self) -> Fraction:
        """Device time of one execution in a stream of them."""
        return Fraction(self.cycles, self.clock_hz)

    @property
    def first_seconds(self) -> Fraction:
        """What the first execution of a stream takes beyond that."""
        return Fraction(max(self.latency_cycles - self.cycles, 0), self.clock_hz)

    @property
    def load_seconds(self) -> Fraction:
        """Device time of loading the program, once in each window that was sold with it; 0 where the facts say nothing of it:
        such a window was sold without."""
        return Fraction(self.load_cycles, self.clock_hz)

    @property
    def load_cycles(self) -> int:
        """The same in cycles of the processor."""
        return 0 if self.load is None else self.load["cycles_in"]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; `from_json` gives back an equal object, and what is stored without a load stays without."""
        return {name: value for name, value in asdict(self).items() if name != "load" or value is not None}

    @staticmethod
    def from_json(document: dict[str, Any]) -> ProgramFacts:
        return ProgramFacts(**document)


def facts_of(program: Program) -> ProgramFacts:
    """The facts of a stored program."""
    version = program.model_version
    return ProgramFacts(
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
    )


def quota_facts(quota: dict[str, Any]) -> ProgramFacts:
    """What stands in a program's place on the line of a quota: its operations, and no cycles of its own."""
    return ProgramFacts(
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


def facts_of_line(line: dict[str, Any]) -> ProgramFacts:
    """The facts of a stored line: of its program, or of its quota."""
    return quota_facts(line["quota"]) if line["program"] is None else ProgramFacts.from_json(line["program"])


def project_uuid(facts: ProgramFacts) -> UUID | None:
    """The project that usage of this program is filed under; a quota's rest belongs to none."""
    return UUID(facts.project_id) if facts.project_id else None
