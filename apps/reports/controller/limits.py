"""Check fleet changes against the controller's limits for a pool."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction

from apps.fleet.document import Document, Pool

HOUR = 3600


@dataclass(frozen=True)
class Limits:
    """The controller's limits for a pool. Power settings are percentages of the clock rate. `devices_a_day` is the
    number of devices that may change state within 24 hours. Changes are allowed in the UTC hours [from_hour,
    until_hour), which may cross midnight.
    """

    power_least: int = 50
    power_most: int = 100
    devices_a_day: int = 1
    from_hour: int = 0
    until_hour: int = 24
    payback_hours: int = 24

    def is_open(self, at: datetime) -> bool:
        """Return whether the controller may apply changes at this instant."""
        hour = at.astimezone(UTC).hour
        if self.from_hour < self.until_hour:
            return self.from_hour <= hour < self.until_hour
        return hour >= self.from_hour or hour < self.until_hour


@dataclass(frozen=True)
class Effect:
    """The effect of a fleet change on one pool. `moved` devices change state, and `bought` devices are added or
    removed. `power` is the power setting before and after. `is_more` is True if the change has other effects.
    """

    moved: int
    bought: int
    power: tuple[int, int]
    is_more: bool


def effect_of(before: Document, after: Document, slug: str) -> Effect:
    """Return the effect on the pool `slug` of changing the fleet from `before` to `after`. Both documents must contain
    the pool.
    """
    old, new = before.pools[slug], after.pools[slug]
    moved = sum(old.devices.get(name, state) != state for name, state in new.devices.items())
    allowed: Pool = replace(old, devices=new.devices, power_percent=new.power_percent)
    is_more = replace(before, pools={**before.pools, slug: allowed}) != after
    return Effect(moved, len(set(old.devices) ^ set(new.devices)), (old.power_percent, new.power_percent), is_more)


def outside(limits: Limits, effect: Effect, *, payback: Fraction | None, moved_today: int, now: datetime) -> list[str]:
    """Return a sentence for each limit that the change exceeds. `payback` is in seconds; None if no programs are
    migrated.
    """
    found = []
    if not limits.is_open(now):
        found.append(
            f"The controller may apply changes from {limits.from_hour:02}:00 to {limits.until_hour:02}:00 UTC."
        )
    if effect.is_more:
        found.append("The change affects more than the devices and the power of the pool.")
    if effect.bought:
        found.append("Devices would be added or removed; only an administrator may do that.")
    if effect.moved + moved_today > limits.devices_a_day:
        devices = f"{effect.moved:,} device{'s' if effect.moved != 1 else ''}"
        used = f"{moved_today:,} {'has' if moved_today == 1 else 'have'} already changed"
        found.append(
            f"{devices} would change state. At most {limits.devices_a_day:,} may change state in 24 hours, and {used}."
        )
    before, after = effect.power
    if before != after and not limits.power_least <= after <= limits.power_most:
        found.append(
            f"Power would be {after} %, outside the limits of {limits.power_least} % to {limits.power_most} %."
        )
    if payback is not None and payback > limits.payback_hours * HOUR:
        found.append(f"The payback period is longer than {limits.payback_hours:,} hours.")
    return found
