"""What the quote page's controls mean: read leniently, priced by the same path as the stored quote."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from apps.accounts.models import Organisation
from apps.accounts.problems import Problem
from apps.compilation.models import Precision, Program
from apps.fleet.models import Pool
from apps.fleet.selectors import pool_get, pools
from apps.pricing.rating.tariff import zone_of
from apps.sales.models import Contract, FormName
from apps.sales.services import MOST_EXECUTIONS
from apps.sales.shown import CHANGED
from apps.sales.volumes import MOST_TERA_OPERATIONS, Form

DEFAULT_VOLUME = 1_000_000
DEFAULT_TERA = 1000
FIRST_YEAR, LAST_YEAR = 2000, 9000
STEPS = tuple(digit * 10**power for power in range(13) for digit in (1, 2, 5) if digit * 10**power <= MOST_EXECUTIONS)
OF_PROGRAMS = (FormName.EXECUTION.value, FormName.SPREAD.value, FormName.INTERVAL.value)
UNITS = {
    "us": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "min": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86_400),
    "w": Fraction(7 * 86_400),
}
UNIT_NAMES = {
    "us": "microseconds",
    "ms": "milliseconds",
    "s": "seconds",
    "min": "minutes",
    "h": "hours",
    "d": "days",
    "w": "weeks",
}
NAME_TYPED = 400  # characters of a name that the page repeats when it is refused
COUNT = re.compile(r"[0-9]{1,20}")
NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


@dataclass(frozen=True)
class Subject:
    """What is quoted, found for the organisation: a program, a plan, or a quota; and the contract that it amends, whose
    programs are quoted together when it holds `several`."""

    program: Program | None = None
    plan_id: UUID | None = None
    is_quota: bool = False
    amends: Contract | None = None
    several: tuple[Program, ...] = ()

    @property
    def any(self) -> bool:
        """Whether there is something to price."""
        return bool(self.programs) or self.plan_id is not None or self.is_quota

    @property
    def programs(self) -> tuple[Program, ...]:
        """The programs that are quoted, each with a volume of its own; none for a plan or a quota."""
        return self.several or ((self.program,) if self.program is not None else ())

    @property
    def exact(self) -> bool:
        """Whether every program costs the same whatever its data."""
        return all(program.exact for program in self.programs)


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
    volumes: tuple[int, ...] = ()  # of `subject.several`, in its order; 0 leaves a program out
    name: str = ""  # the customer's own
    start_passed: datetime | None = None  # the start that was chosen, where it has passed: the work then starts now

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
                422,
                "Not such a contract",
                "State how long a part is: a number above 0, such as 1, and its unit.",
                kind="form",
            )
        return Form(self.form, Fraction(self.every) * UNITS[self.unit])

    @property
    def hidden(self) -> list[tuple[str, str]]:
        """All controls as a form sends them again, to make the quote that is shown."""
        subject = self.subject
        pairs = [
            ("program", str(subject.program.pk) if subject.program else ""),
            ("plan", str(subject.plan_id or "")),
            ("amends", str(subject.amends.pk) if subject.amends else ""),
            *(
                ((volume_name(one), str(count)) for one, count in self.shares)
                if self.volumes
                else [("volume", str(self.volume))]
            ),
            ("pool", self.pool.slug if self.pool else ""),
            ("klass", self.klass),
            ("start", self.start.isoformat() if self.start else ""),
            ("end", self.end.isoformat() if self.end else ""),
            ("form", self.form if self.form != FormName.EXECUTION else ""),
            ("every", self.every),
            ("unit", self.unit if self.every else ""),
            ("precision", self.precision if subject.is_quota else ""),
            ("measured", "on" if self.measured else ""),
            ("name", self.name),
        ]
        return [(name, value) for name, value in pairs if value]

    @property
    def address(self) -> str:
        """The query that shows the page in this state again."""
        return urlencode(self.hidden)

    @property
    def sold(self) -> str:
        """What is quoted, in words, for the button that makes the quote."""
        unit = "tera-operations" if self.subject.is_quota else "items" if self.subject.plan_id else "executions"
        return f"{sum(self.volumes) if self.volumes else self.volume:,} {unit}"

    @property
    def shares(self) -> list[tuple[Program, int]]:
        """Each of several programs with its volume."""
        return list(zip(self.subject.several, self.volumes, strict=True))

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What the page needs for the controls of several programs."""
        return [
            {"program": one, "name": volume_name(one), "volume": count, "step": step_of(count)}
            for one, count in self.shares
        ]

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
        """The slider's position."""
        return step_of(self.volume)


# What a page sends beside its controls; none of it belongs into its address.
NO_STATE = frozenset({"previous", "shown", "box", "csrfmiddlewaretoken"})


def typed_address(data: Mapping[str, Any]) -> str:
    """The query that shows what was typed again, where it cannot be read as controls."""
    return urlencode([(name, value) for name, value in data.items() if name not in NO_STATE and value != ""])


def box_check(data: Mapping[str, Any], controls: Controls) -> None:
    """Raises Problem(409) when the volume's box held something else than what was priced when a button was pressed."""
    if "box" not in data or controls.volumes:
        return
    try:
        same = _volume(data["box"], controls.subject) == controls.volume
    except Problem:
        same = False
    if not same:
        raise Problem(
            409,
            "The price is of another volume",
            f"The box said {str(data['box'])[:40]!r}, the price beside the button was of {controls.sold}. No quote was made: "
            "look at the price below and make the quote if you want it.",
            kind=CHANGED,
        )


def step_of(volume: int) -> int:
    """The slider's position nearest below a volume."""
    return max((index for index, value in enumerate(STEPS) if value <= volume), default=0)


def volume_name(program: Program) -> str:
    """The control that holds the volume of one of several programs."""
    return f"volume-{program.pk}"


def controls_read(
    data: Mapping[str, Any], *, organisation: Organisation, subject: Subject, klass: str, now: datetime
) -> Controls:
    """Read the controls; `klass` applies where no class is chosen.

    Raises Problem for a value that means nothing, with what to enter instead.
    """
    zone = organisation.time_zone
    pick, _, picked_class = str(data.get("pick") or "").partition("|")
    picked = _instant(pick, zone)
    start, end = picked or _instant(data.get("start"), zone), _instant(data.get("end"), zone)
    if picked and end is not None and end <= picked:
        end = picked + timedelta(days=1)
    has_passed = start is not None and start <= now and not picked
    # The database takes no text with a NUL in it, and no pool is named so.
    pool = pool_get(str(data["pool"]).replace("\x00", "?")) if data.get("pool") else None
    if pool is None:
        pool = next(iter(pools_of(subject)), None)
    form = FormName.QUOTA if subject.is_quota else str(data.get("form") or FormName.EXECUTION)
    if not subject.is_quota and form not in OF_PROGRAMS:
        raise Problem(
            422, "Not such a contract", f"Programs are sold in the forms {', '.join(OF_PROGRAMS)}.", kind="form"
        )
    return Controls(
        subject=subject,
        volume=_volume(data.get("volume"), subject),
        klass=picked_class or str(data.get("klass") or klass),
        pool=pool,
        start=None if has_passed else start,
        name=str(data.get("name") or "")[:NAME_TYPED],
        start_passed=start if has_passed else None,
        end=end,
        zone=zone,
        form=form,
        every=str(data.get("every") or "").strip(),
        unit=str(data.get("unit") or "d"),
        precision=str(data.get("precision") or Precision.FLOAT32),
        measured=bool(data.get("measured")),
        volumes=tuple(
            _count(data.get(volume_name(one)), 0, 0, MOST_EXECUTIONS, "executions") for one in subject.several
        ),
    )


def pools_of(subject: Subject) -> list[Pool]:
    """Pools that can take what is quoted."""
    if subject.programs:
        first, *others = (pools_fitting(program) for program in subject.programs)
        return [pool for pool in first if all(pool in some for some in others)]
    return [pool for pool in pools() if not pool.is_host] if subject.is_quota else []


def pools_missing(subject: Subject) -> list[dict[str, str]]:
    """Pools that cannot run what is quoted, each with the reason. Empty for a plan, whose pool is chosen already."""
    if not subject.programs and not subject.is_quota:
        return []
    fitting = {pool.slug for pool in pools_of(subject)}
    return [{"title": pool.name, "reason": _unfit(subject, pool)} for pool in pools() if pool.slug not in fitting]


def _unfit(subject: Subject, pool: Pool) -> str:
    if subject.is_quota:
        return "Quotas are not sold on this pool: its speed is measured, not proven."
    if pool.is_host:
        return "This pool runs models in float32 only. Compile the model in float32 to use it."
    target = pool.processor.name if pool.processor else pool.target
    if any(program.target == target for program in subject.programs):
        return f"This pool has another version of the processor {target}. Compile the model again to use it."
    return f"This pool has the processor {target}. Compile the model for it to use the pool."


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
    return _count(value, default, 1, most, unit)


def _count(value: Any, default: int, least: int, most: int, unit: str) -> int:
    """A whole number as people type it, with signs between thousands; the default where nothing was asked yet. A box that
    was emptied holds no number. Raises Problem."""
    if value is None:
        return default
    text = str(value).replace(",", "").replace("_", "").replace(" ", "")
    if not COUNT.fullmatch(text) or not least <= int(text) <= most:
        raise Problem(
            422,
            "Impossible volume",
            f"Enter a whole number of {unit} from {least} to {most:,}; nothing is priced until then.",
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
    if not FIRST_YEAR <= instant.year <= LAST_YEAR:
        raise Problem(422, "Not a time", f"Enter a time between the years {FIRST_YEAR} and {LAST_YEAR}.", kind="window")
    return (instant if instant.tzinfo else instant.replace(tzinfo=zone_of(zone))).astimezone(UTC)
