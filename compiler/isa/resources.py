"""What one inference costs: the quantities on the report, the quote and the invoice (G4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Storage:
    """Bytes resident on the processor. ``total`` is the sum of the others but ``external``, which lies beside the chip."""

    weights: int
    activations: int
    state: int
    instructions: int
    scratch: int
    total: int
    external: int = 0


@dataclass(frozen=True)
class Io:
    """Bytes over the host link and to external memory, each once."""

    bytes_in: int
    bytes_out: int
    external_in: int
    external_out: int


@dataclass(frozen=True)
class Memory:
    """Bytes that units take from and put into on-chip memory."""

    read: int
    written: int


@dataclass(frozen=True)
class Load:
    """What crosses the host link before a program's first cycle, once each time that it is put on a processor.

    Bytes by kind: ``instructions``, the images of ``constants`` and ``state``, and of ``external`` memory; ``bytes_in`` is their
    sum and ``cycles_in`` how long the link takes for it. Nothing leaves: ``bytes_out`` and ``cycles_out`` are 0.
    """

    instructions: int
    constants: int
    state: int
    external: int
    bytes_in: int
    cycles_in: int
    bytes_out: int = 0
    cycles_out: int = 0


@dataclass(frozen=True)
class Resources:
    """Counts of one inference, and of loading its program; the simulator's counters have the same form and must be equal when
    ``exact``. ``load`` is None where it was stored before loading was counted.

    ``cycles``: from cycle 0 to the last byte written (latency). ``interval``: cycles between the starts of inferences
    that run back to back. ``executed_operations``: arithmetic slots used, padding of tiles and lanes included.
    """

    operations: int
    executed_operations: int
    storage: Storage
    io: Io
    memory: Memory
    cycles: int
    interval: int
    energy_fj: int
    exact: bool = True
    reason: str = ""
    load: Load | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "load" or value is not None}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Resources:
        """The inverse of ``to_json``; ``TypeError`` or ``KeyError`` on another shape."""
        plain = dict(data)
        load = plain.pop("load", None)
        return Resources(
            storage=Storage(**plain.pop("storage")),
            io=Io(**plain.pop("io")),
            memory=Memory(**plain.pop("memory")),
            load=None if load is None else Load(**load),
            **plain,
        )

    def within(self, bound: Resources) -> bool:
        """Whether a run that counted this keeps what ``bound`` promises: equal when that is exact, else nowhere more."""
        if bound.exact:
            return self == bound
        ours, most = dict(_leaves(self.to_json())), dict(_leaves(bound.to_json()))
        return self.reason == bound.reason and not self.exact and all(ours[name] <= most[name] for name in ours)


def _leaves(data: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, int]]:
    """Whole numbers by dotted name, those of nested tables too."""
    for name, value in data.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        elif isinstance(value, int) and name != "exact":
            yield prefix + name, value


def most(parts: Sequence[Resources]) -> Resources:
    """The largest of every quantity over some inferences of one program."""

    def largest(rows: list[dict[str, Any]]) -> dict[str, Any]:
        first = rows[0]
        return {
            name: largest([row[name] for row in rows]) if isinstance(value, dict) else max(row[name] for row in rows)
            for name, value in first.items()
        }

    return Resources.from_json(largest([part.to_json() for part in parts]))


Counters = Resources
