"""What the controller may do to a pool, and whether a change of the fleet is within that. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction

from apps.fleet.document import Document, Pool

HOUR = 3600


@dataclass(frozen=True)
class Limits:
    """Power in per cent of the clock, devices that change their state in 24 hours, hours of the UTC day `[from, until)` (over
    midnight where `until` is the smaller one), and the longest pay-back in hours."""

    power_least: int = 50
    power_most: int = 100
    devices_a_day: int = 1
    from_hour: int = 0
    until_hour: int = 24
    payback_hours: int = 24

    def is_open(self, at: datetime) -> bool:
        """Whether the instant is in the hours in which the controller may apply."""
        hour = at.astimezone(UTC).hour
        if self.from_hour < self.until_hour:
            return self.from_hour <= hour < self.until_hour
        return hour >= self.from_hour or hour < self.until_hour


@dataclass(frozen=True)
class Effect:
    """What a change of the fleet does to one pool: devices that change their state, that come or go, the power setting before
    and after, and whether anything else changes."""

    moved: int
    bought: int
    power: tuple[int, int]
    is_more: bool


def effect_of(before: Document, after: Document, slug: str) -> Effect:
    """What becomes of a pool that is in both documents."""
    old, new = before.pools[slug], after.pools[slug]
    moved = sum(old.devices.get(name, state) != state for name, state in new.devices.items())
    allowed: Pool = replace(old, devices=new.devices, power_percent=new.power_percent)
    is_more = replace(before, pools={**before.pools, slug: allowed}) != after
    return Effect(moved, len(set(old.devices) ^ set(new.devices)), (old.power_percent, new.power_percent), is_more)


def outside(limits: Limits, effect: Effect, *, payback: Fraction | None, moved_today: int, now: datetime) -> list[str]:
    """Every limit that the change would cross, each in a sentence; nothing where it is within all. `payback` in seconds, None
    where nothing has to pay back."""
    found = []
    if not limits.is_open(now):
        found.append(f"It may apply from {limits.from_hour:02}:00 to {limits.until_hour:02}:00 UTC.")
    if effect.is_more:
        found.append("It would change more than the pool's devices and power.")
    if effect.bought:
        found.append("Devices would be added or removed, which an administrator decides.")
    if effect.moved + moved_today > limits.devices_a_day:
        found.append(
            f"It would change {effect.moved:,} device{'s' if effect.moved != 1 else ''}; the limit is {limits.devices_a_day:,} "
            f"in 24 hours, of which {moved_today:,} {'is' if moved_today == 1 else 'are'} used."
        )
    before, after = effect.power
    if before != after and not limits.power_least <= after <= limits.power_most:
        found.append(f"Power would be {after} %; the limits are {limits.power_least} % to {limits.power_most} %.")
    if payback is not None and payback > limits.payback_hours * HOUR:
        found.append(f"It pays back after more than {limits.payback_hours:,} hours.")
    return found
