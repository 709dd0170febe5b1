"""What somebody would change: read from a form or a request, kept as plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from apps.accounts.problems import Problem

DEVICES_MOST = 100_000
POWER = (1, 200)  # per cent
DEMAND = (0.0, 1000.0)  # times
REQUEST_SECONDS = (0.000_001, 86_400.0)


@dataclass(frozen=True)
class Change:
    """Devices added to or taken from pools (by slug), sites that fail, power in per cent of now, demand times a factor; and
    for a trace the pool that its requests come to and the device time of one in seconds; a price book by version."""

    devices: dict[str, int] = field(default_factory=dict)
    failed_sites: list[str] = field(default_factory=list)
    power_percent: int = 100
    demand_factor: float = 1.0
    trace_pool: str = ""
    request_seconds: float = 0.0
    book: int | None = None

    def to_json(self) -> dict[str, Any]:
        """As it is stored."""
        return asdict(self)


def change_check(change: Change, *, pools: set[str], sites: set[str], has_trace: bool) -> Change:
    """The change itself, if it names what there is and stays within sense; a Problem otherwise."""
    unknown = sorted(set(change.devices) - pools)
    if unknown:
        raise _wrong(f"There is no pool '{unknown[0]}'. Choose among: {', '.join(sorted(pools))}.")
    lost = sorted(set(change.failed_sites) - sites)
    if lost:
        raise _wrong(f"There is no site '{lost[0]}'. Choose among: {', '.join(sorted(sites))}.")
    if any(abs(count) > DEVICES_MOST for count in change.devices.values()):
        raise _wrong(f"Add or take at most {DEVICES_MOST:,} devices of a pool.")
    if not POWER[0] <= change.power_percent <= POWER[1]:
        raise _wrong(f"State the power in whole per cent from {POWER[0]} to {POWER[1]}.")
    if not DEMAND[0] <= change.demand_factor <= DEMAND[1]:  # NaN fails this too
        raise _wrong(f"State the demand as a factor from {DEMAND[0]:g} to {DEMAND[1]:,.0f}.")
    if has_trace:
        _trace_check(change, pools)
    elif not 0 <= change.request_seconds <= REQUEST_SECONDS[1]:
        raise _wrong("State the device time of one request in seconds, 0 without a trace.")
    return change


def _trace_check(change: Change, pools: set[str]) -> None:
    if change.trace_pool not in pools:
        raise _wrong(f"Name the pool that the trace's requests come to, one of: {', '.join(sorted(pools))}.")
    if not REQUEST_SECONDS[0] <= change.request_seconds <= REQUEST_SECONDS[1]:
        raise _wrong("State the device time of one request in seconds, from 0.000001 to 86,400.")


def _wrong(detail: str) -> Problem:
    return Problem(422, "Impossible change", detail, kind="change-invalid")
