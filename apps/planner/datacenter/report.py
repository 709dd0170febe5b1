"""The report of a simulation in whole numbers."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass

import numpy as np

from apps.planner.datacenter.simulator import Outcome
from apps.planner.datacenter.types import Scenario


@dataclass(frozen=True)
class Report:
    """The report of a simulation.

    Waits are in microseconds from arrival to start, as nearest-rank percentiles over the requests that started. Device
    time is in microseconds, and energy in millijoules. `missed` counts the accepted reservations that did not begin on
    time or did not end within their window.
    """

    requests: int
    served: int
    waiting: int
    waited: int
    wait_p50: int
    wait_p95: int
    wait_p99: int
    bookings: int
    accepted: int
    missed: int
    devices: int
    busy: int
    available: int
    loads: int
    energy_mj: int
    digest: str

    @property
    def utilisation(self) -> float:
        return self.busy / self.available if self.available else 0.0

    def to_json(self) -> dict[str, int | str]:
        return asdict(self)


def report_of(scenario: Scenario, outcome: Outcome) -> Report:
    """Return the report of a simulation."""
    started = outcome.started >= 0
    waits = np.sort((outcome.started - scenario.requests.at)[started])
    due = [place for place, one in enumerate(outcome.windows) if one is not None and one[1].start < scenario.until]
    accepted = sum(one is not None for one in outcome.windows)
    kinds = scenario.devices
    energy = sum(
        busy * kinds[kind].busy_mw + (scenario.until - busy) * kinds[kind].idle_mw
        for busy, kind in zip(outcome.busy, outcome.by_type, strict=True)
    )
    return Report(
        requests=len(scenario.requests.at),
        served=int(started.sum()),
        waiting=int((~started).sum()),
        waited=int((waits > 0).sum()),
        wait_p50=_rank(waits, 50),
        wait_p95=_rank(waits, 95),
        wait_p99=_rank(waits, 99),
        bookings=len(scenario.bookings),
        accepted=accepted,
        missed=sum(not outcome.kept[place] for place in due),
        devices=len(outcome.busy),
        busy=sum(outcome.busy),
        available=len(outcome.busy) * scenario.until,
        loads=outcome.loads,
        energy_mj=energy // 1_000_000,
        digest=digest_of(outcome),
    )


def _rank(waits: np.ndarray[tuple[int], np.dtype[np.int64]], percent: int) -> int:
    return int(waits[-(-percent * len(waits) // 100) - 1]) if len(waits) else 0


def digest_of(outcome: Outcome) -> str:
    """Return the SHA-256 digest of all starts, devices, windows and busy times."""
    digest = hashlib.sha256()
    for numbers in (outcome.started, outcome.device, np.array(outcome.busy, dtype=np.int64)):
        digest.update(numbers.astype("<i8").tobytes())
    digest.update(repr([(one, kept) for one, kept in zip(outcome.windows, outcome.kept, strict=True)]).encode())
    return digest.hexdigest()
