"""What the quote page's controls mean: read leniently, priced by the same path as the stored quote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from apps.accounts.models import Organisation
from apps.accounts.problems import Problem
from apps.compilation.models import Precision, Program
from apps.fleet.models import Pool
from apps.fleet.selectors import pool_get, pools
from apps.pricing.rating.tariff import zone_of
from apps.sales.services import MOST_EXECUTIONS

DEFAULT_VOLUME = 1_000_000
STEPS = tuple(digit * 10**power for power in range(13) for digit in (1, 2, 5) if digit * 10**power <= MOST_EXECUTIONS)


@dataclass(frozen=True)
class Controls:
    """The state of the page's controls, after what was sent."""

    program: Program | None
    plan_id: UUID | None
    volume: int
    klass: str
    pool: Pool | None
    start: datetime | None
    end: datetime | None
    zone: str

    @property
    def window(self) -> tuple[datetime | None, datetime | None]:
        """The window as services take it."""
        return self.start, self.end

    def local(self, instant: datetime | None) -> str:
        """An instant as the browser's date and time box holds it."""
        return "" if instant is None else instant.astimezone(zone_of(self.zone)).strftime("%Y-%m-%dT%H:%M")

    @property
    def start_local(self) -> str:
        return self.local(self.start)

    @property
    def end_local(self) -> str:
        return self.local(self.end)

    @property
    def step(self) -> int:
        """The slider's position nearest below the volume."""
        return max((index for index, value in enumerate(STEPS) if value <= self.volume), default=0)


def controls_read(
    data: Mapping[str, Any], *, organisation: Organisation, plan_id: UUID | None, program: Program | None, now: datetime
) -> Controls:
    """Read the controls. Raises Problem for a value that means nothing, with what to enter instead."""
    zone = organisation.time_zone
    picked = _instant(data.get("pick"), zone)
    start, end = picked or _instant(data.get("start"), zone), _instant(data.get("end"), zone)
    if picked and end is not None and end <= picked:
        end = picked + timedelta(days=1)
    # The database takes no text with a NUL in it, and no pool is named so.
    pool = pool_get(str(data["pool"]).replace("\x00", "?")) if data.get("pool") else None
    if pool is None and program is not None:
        pool = next(iter(pools_fitting(program)), None)
    return Controls(
        program=program,
        plan_id=plan_id,
        volume=_volume(data.get("volume")),
        klass=str(data.get("klass") or "standard"),
        pool=pool,
        start=None if start is not None and start <= now and not picked else start,
        end=end,
        zone=zone,
    )


def pools_fitting(program: Program) -> list[Pool]:
    """Pools that can run a program: those of its processor version, then hosts, which run the model itself, in float32."""
    fitting = [
        pool
        for pool in pools()
        if (pool.is_host and program.precision == Precision.FLOAT32)
        or (pool.processor is not None and pool.processor.digest == program.target_digest)
    ]
    return sorted(fitting, key=lambda pool: (pool.is_host, pool.slug))


def _volume(value: Any) -> int:
    if value in (None, ""):
        return DEFAULT_VOLUME
    text = str(value).replace(",", "").replace("_", "").replace(" ", "")
    if not text.isdigit() or not 1 <= int(text[:20]) <= MOST_EXECUTIONS:
        raise Problem(
            422,
            "Impossible volume",
            f"Enter a whole number of executions from 1 to {MOST_EXECUTIONS:,}.",
            kind="volume",
        )
    return int(text)


def _instant(value: Any, zone: str) -> datetime | None:
    if value in (None, ""):
        return None
    try:
        instant = datetime.fromisoformat(str(value))
    except ValueError as error:
        raise Problem(
            422, "Not a time", f"{value!r} is not a date and time such as 2026-12-01T22:00.", kind="window"
        ) from error
    return (instant if instant.tzinfo else instant.replace(tzinfo=zone_of(zone))).astimezone(UTC)
