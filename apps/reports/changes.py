"""The change that a what-if assumes, and the check that the change is possible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from apps.accounts.problems import Problem

DEVICES_MOST = 100_000
POWER = (1, 200)  # per cent
DEMAND = (0.0, 1000.0)  # factor
REQUEST_SECONDS = (0.000_001, 86_400.0)


@dataclass(frozen=True)
class Change:
    """A change of the fleet, the demand or the prices.

    `devices`: the number of devices added to each pool, by slug; negative if devices are removed. `power_percent`: the
    new power setting as a percentage of the current setting. `request_seconds`: the device time of one request in the
    trace. `book`: the version of the price book.
    """

    devices: dict[str, int] = field(default_factory=dict)
    failed_sites: list[str] = field(default_factory=list)
    power_percent: int = 100
    demand_factor: float = 1.0
    trace_pool: str = ""
    request_seconds: float = 0.0
    book: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the change in its stored form."""
        return asdict(self)


def change_check(change: Change, *, pools: Mapping[str, int], sites: set[str], has_trace: bool) -> Change:
    """Return the change if it is possible; otherwise, raise Problem. `pools` maps each slug to the number of active
    devices.
    """
    unknown = sorted(set(change.devices) - set(pools))
    if unknown:
        raise _wrong(f"There is no pool '{unknown[0]}'. Choose one of these pools: {', '.join(sorted(pools))}.")
    lost = sorted(set(change.failed_sites) - sites)
    if lost:
        raise _wrong(f"There is no site '{lost[0]}'. Choose one of these sites: {', '.join(sorted(sites))}.")
    _devices_check(change.devices, pools)
    if not POWER[0] <= change.power_percent <= POWER[1]:
        raise _wrong(f"Enter the power in per cent, as a whole number from {POWER[0]} to {POWER[1]}.")
    if not DEMAND[0] <= change.demand_factor <= DEMAND[1]:  # NaN fails this too
        raise _wrong(f"Enter a demand factor from {DEMAND[0]:g} to {DEMAND[1]:,.0f}.")
    if has_trace:
        _trace_check(change, pools)
    elif not 0 <= change.request_seconds <= REQUEST_SECONDS[1]:
        raise _wrong("The device time of one request must be from 0 to 86,400 seconds. Enter 0 if there is no trace.")
    return change


def _devices_check(devices: Mapping[str, int], pools: Mapping[str, int]) -> None:
    for slug, count in sorted(devices.items()):
        if abs(count) > DEVICES_MOST:
            raise _wrong(f"At most {DEVICES_MOST:,} devices can be added to a pool or removed from it.")
        if count < -pools[slug]:
            has = "has 1 active device" if pools[slug] == 1 else f"has {pools[slug]:,} active devices"
            raise _wrong(f"Pool {slug} {has}, so {-count:,} cannot be removed.")


def _trace_check(change: Change, pools: Mapping[str, int]) -> None:
    if change.trace_pool not in pools:
        raise _wrong(f"Choose one of these pools to serve the trace: {', '.join(sorted(pools))}.")
    if not REQUEST_SECONDS[0] <= change.request_seconds <= REQUEST_SECONDS[1]:
        raise _wrong("Enter the device time of one request in seconds, from 0.000001 to 86,400.")


def _wrong(detail: str) -> Problem:
    return Problem(422, "Impossible change", detail, kind="change-invalid")
