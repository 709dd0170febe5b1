"""What the quote page's controls mean: read leniently, priced by the same path as the stored quote."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any
from uuid import UUID

from apps.accounts.models import Organisation
from apps.accounts.problems import Problem
from apps.compilation.models import Precision, Program
from apps.fleet.models import Pool
from apps.fleet.selectors import pool_get, pools
from apps.pricing.rating.tariff import zone_of
from apps.sales.models import Contract, FormName
from apps.sales.services import MOST_EXECUTIONS
from apps.sales.volumes import MOST_TERA_OPERATIONS, Form

DEFAULT_VOLUME = 1_000_000
DEFAULT_TERA = 1000
STEPS = tuple(digit * 10**power for power in range(13) for digit in (1, 2, 5) if digit * 10**power <= MOST_EXECUTIONS)
UNITS = {
    "us": Fraction(1, 10**6), "ms": Fraction(1, 1000), "s": Fraction(1), "min": Fraction(60), "h": Fraction(3600),
    "d": Fraction(86_400), "w": Fraction(7 * 86_400),
}  # fmt: skip
UNIT_NAMES = {
    "us": "microseconds", "ms": "milliseconds", "s": "seconds", "min": "minutes", "h": "hours", "d": "days", "w": "weeks",
}  # fmt: skip
NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


@dataclass(frozen=True)
class Subject:
    """What is quoted, found for the organisation: a program, a plan, or a quota; and the contract that it amends."""

    program: Program | None = None
    plan_id: UUID | None = None
    is_quota: bool = False
    amends: Contract | None = None

    @property
    def any(self) -> bool:
        """Whether there is something to price."""
        return self.program is not None or self.plan_id is not None or self.is_quota


@dataclass(frozen=True)
class Controls:
    """The state of the page's controls, after what was sent."""

    subject: Subject
    volume: int
    klass: str
    pool: Pool | None
    start: datetime | None
    end: datetime | None
    zone: str
    form: str = FormName.EXECUTION
    every: str = ""
    unit: str = "d"
    precision: str = Precision.FLOAT32
    measured: bool = False

    @property
    def window(self) -> tuple[datetime | None, datetime | None]:
        """The window as services take it."""
        return self.start, self.end

    @property
    def volume_form(self) -> Form:
        """The form as services take it. Raises Problem for a length that means nothing."""
        if self.form not in {FormName.SPREAD, FormName.INTERVAL}:
            return Form()
        if not NUMBER.fullmatch(self.every) or self.unit not in UNITS or not Fraction(self.every):
            raise Problem(
                422, "Not such a contract", "State how long a part is: a number above 0, such as 1, and its unit.",
                kind="form",
            )  # fmt: skip
        return Form(self.form, Fraction(self.every) * UNITS[self.unit])

    @property
    def hidden(self) -> list[tuple[str, str]]:
        """All controls as a form sends them again, to make the quote that is shown."""
        subject = self.subject
        pairs = [
            ("program", str(subject.program.pk) if subject.program else ""),
            ("plan", str(subject.plan_id or "")),
            ("amends", str(subject.amends.pk) if subject.amends else ""),
            ("volume", str(self.volume)),
            ("pool", self.pool.slug if self.pool else ""),
            ("klass", self.klass),
            ("start", self.start.isoformat() if self.start else ""),
            ("end", self.end.isoformat() if self.end else ""),
            ("form", self.form if self.form != FormName.EXECUTION else ""),
            ("every", self.every),
            ("unit", self.unit if self.every else ""),
            ("precision", self.precision if subject.is_quota else ""),
            ("measured", "on" if self.measured else ""),
        ]
        return [(name, value) for name, value in pairs if value]

    def starting(self, klass: str, start: datetime, end: datetime) -> Controls:
        """The same work in another class and window."""
        return replace(self, klass=klass, start=start, end=end)

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


def controls_read(data: Mapping[str, Any], *, organisation: Organisation, subject: Subject, now: datetime) -> Controls:
    """Read the controls. Raises Problem for a value that means nothing, with what to enter instead."""
    zone = organisation.time_zone
    pick, _, picked_class = str(data.get("pick") or "").partition("|")
    picked = _instant(pick, zone)
    start, end = picked or _instant(data.get("start"), zone), _instant(data.get("end"), zone)
    if picked and end is not None and end <= picked:
        end = picked + timedelta(days=1)
    # The database takes no text with a NUL in it, and no pool is named so.
    pool = pool_get(str(data["pool"]).replace("\x00", "?")) if data.get("pool") else None
    if pool is None:
        pool = next(iter(pools_of(subject)), None)
    form = FormName.QUOTA if subject.is_quota else str(data.get("form") or FormName.EXECUTION)
    return Controls(
        subject=subject,
        volume=_volume(data.get("volume"), subject),
        klass=picked_class or str(data.get("klass") or "standard"),
        pool=pool,
        start=None if start is not None and start <= now and not picked else start,
        end=end,
        zone=zone,
        form=form,
        every=str(data.get("every") or "").strip(),
        unit=str(data.get("unit") or "d"),
        precision=str(data.get("precision") or Precision.FLOAT32),
        measured=bool(data.get("measured")),
    )


def pools_of(subject: Subject) -> list[Pool]:
    """Pools that can take what is quoted."""
    if subject.program is not None:
        return pools_fitting(subject.program)
    return [pool for pool in pools() if not pool.is_host] if subject.is_quota else []


def pools_fitting(program: Program) -> list[Pool]:
    """Pools that can run a program: those of its processor version, then hosts, which run the model itself, in float32."""
    fitting = [
        pool
        for pool in pools()
        if (pool.is_host and program.precision == Precision.FLOAT32)
        or (pool.processor is not None and pool.processor.digest == program.target_digest)
    ]
    return sorted(fitting, key=lambda pool: (pool.is_host, pool.slug))


def _volume(value: Any, subject: Subject) -> int:
    default, most, unit = (
        (DEFAULT_TERA, MOST_TERA_OPERATIONS, "tera-operations")
        if subject.is_quota
        else (DEFAULT_VOLUME, MOST_EXECUTIONS, "executions")
    )
    if value in (None, ""):
        return default
    text = str(value).replace(",", "").replace("_", "").replace(" ", "")
    if not text.isdigit() or not 1 <= int(text[:20]) <= most:
        raise Problem(422, "Impossible volume", f"Enter a whole number of {unit} from 1 to {most:,}.", kind="volume")
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
