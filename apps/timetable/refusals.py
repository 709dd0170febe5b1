"""Refusals of requests for device time."""

from __future__ import annotations

from collections.abc import Sequence

from apps.accounts.problems import Problem
from apps.fleet.models import Pool
from apps.timetable import admission
from apps.timetable.selectors import Alternative


class CapacityTaken(Problem):
    """Raised if a demand does not fit. `alternatives` lists other places where the demand would fit."""

    def __init__(self, *, pool: Pool, refusal: admission.Refusal, alternatives: Sequence[Alternative]) -> None:
        self.alternatives = list(alternatives)
        super().__init__(
            409,
            "Capacity is taken",
            _refusal_sentence(pool, refusal, self.alternatives),
            kind="capacity-taken",
            errors=[
                {"pool": one.pool, "start": one.start.isoformat(), "end": one.end.isoformat()}
                for one in self.alternatives
            ],
        )


class PoolChanged(Problem):
    """Raised if the pool's processor or power setting has changed since the demand was made."""

    def __init__(self, pool: Pool) -> None:
        detail = f"Pool {pool.slug} now has a different processor or power setting. Request a new quote. Nothing was reserved."
        super().__init__(409, "The pool has changed", detail, kind="pool-changed")


class CapacityBusy(Problem):
    """Raised if other transactions hold the locks of the devices for too long."""

    def __init__(self, pool: Pool) -> None:
        detail = f"Many orders for pool {pool.slug} are being placed at this moment; try again in a minute."
        super().__init__(503, "Busy", detail, kind="capacity-busy")


def _refusal_sentence(pool: Pool, refusal: admission.Refusal, alternatives: Sequence[Alternative]) -> str:
    needed, largest = _seconds(refusal.needed), _seconds(refusal.largest)
    said = f"Pool {pool.slug} has no free window of {needed} left in the requested time; the longest is {largest}."
    if not alternatives:
        return f"{said} Request less, or a later time."
    one = min(alternatives, key=lambda each: each.start)
    return f"{said} The same work fits on {one.pool} from {one.start:%Y-%m-%d %H:%M:%S} UTC."


def _seconds(micros: int) -> str:
    if micros < 1000:
        return f"{micros} us"
    return f"{micros / 1000:,.3f} ms" if micros < 1_000_000 else f"{micros / 1_000_000:,.3f} s"
