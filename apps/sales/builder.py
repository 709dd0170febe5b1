"""The controls of the quote builder, read from a form or a query string."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from apps.accounts.models import Organisation
from apps.accounts.problems import Problem
from apps.compilation.models import Precision, Program
from apps.fleet.models import Pool
from apps.fleet.selectors import pool_get, pools
from apps.pricing.rating.tariff import zone_of
from apps.sales.models import Contract, FormName
from apps.sales.price_marks import CHANGED
from apps.sales.services import MOST_EXECUTIONS
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
    """The subject of a quote: one or more programs, a plan or a quota.

    `amends`: the contract that the quote amends. `several`: the contract's programs, if there is more than one.
    """

    program: Program | None = None
    plan_id: UUID | None = None
    is_quota: bool = False
    amends: Contract | None = None
    several: tuple[Program, ...] = ()

    @property
    def any(self) -> bool:
        return bool(self.programs) or self.plan_id is not None or self.is_quota

    @property
    def programs(self) -> tuple[Program, ...]:
        return self.several or ((self.program,) if self.program is not None else ())

    @property
    def exact(self) -> bool:
        return all(program.exact for program in self.programs)


@dataclass(frozen=True)
class Controls:
    """The state of the controls after a request."""

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
        return self.start, self.end

    @property
    def volume_form(self) -> Form:
        if self.form not in {FormName.SPREAD, FormName.INTERVAL}:
            return Form()
        if not NUMBER.fullmatch(self.every) or self.unit not in UNITS or not Fraction(self.every):
            raise Problem(
                422,
                "Length missing",
                "Enter the length of a part: a number above 0, for example 1, and its unit.",
                kind="form",
            )
        return Form(self.form, Fraction(self.every) * UNITS[self.unit])

    @property
    def hidden(self) -> list[tuple[str, str]]:
        subject = self.subject
        pairs = [
            ("program", subject.program and subject.program.pk),
            ("plan", subject.plan_id),
            ("amends", subject.amends and subject.amends.pk),
            *self._volume_fields,
            ("pool", self.pool and self.pool.slug),
            ("klass", self.klass),
            ("start", self.start and self.start.isoformat()),
            ("end", self.end and self.end.isoformat()),
            ("form", self.form != FormName.EXECUTION and self.form),
            ("every", self.every),
            ("unit", self.every and self.unit),
            ("precision", subject.is_quota and self.precision),
            ("measured", self.measured and "on"),
            ("name", self.name),
        ]
        return [(name, str(value)) for name, value in pairs if value]

    @property
    def _volume_fields(self) -> list[tuple[str, Any]]:
        if self.volumes:
            return [(volume_name(program), str(count)) for program, count in self.shares]
        return [("volume", str(self.volume))]

    @property
    def address(self) -> str:
        return urlencode(self.hidden)

    @property
    def sold(self) -> str:
        unit = "tera-operations" if self.subject.is_quota else "items" if self.subject.plan_id else "executions"
        return f"{sum(self.volumes) if self.volumes else self.volume:,} {unit}"

    @property
    def shares(self) -> list[tuple[Program, int]]:
        return list(zip(self.subject.several, self.volumes, strict=True))

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [
            {"program": one, "name": volume_name(one), "volume": count, "step": step_of(count)}
            for one, count in self.shares
        ]

    def starting(self, klass: str, start: datetime, end: datetime) -> Controls:
        """Return the controls for the same work in another class and window."""
        return replace(self, klass=klass, start=start, end=end)

    def local(self, instant: datetime | None) -> str:
        """Format an instant for a date and time field."""
        return "" if instant is None else instant.astimezone(zone_of(self.zone)).strftime("%Y-%m-%dT%H:%M")

    @property
    def start_local(self) -> str:
        return self.local(self.start)

    @property
    def end_local(self) -> str:
        return self.local(self.end)

    @property
    def step(self) -> int:
        return step_of(self.volume)


# Fields that are sent with the controls and do not belong in the address.
NO_STATE = frozenset({"previous", "shown", "box", "csrfmiddlewaretoken"})


def typed_address(data: Mapping[str, Any]) -> str:
    """Return a query string with the entered values."""
    return urlencode([(name, value) for name, value in data.items() if name not in NO_STATE and value != ""])


def box_check(data: Mapping[str, Any], controls: Controls) -> None:
    """Raise Problem(409) if the volume in the field differs from the priced volume."""
    if "box" not in data or controls.volumes:
        return
    try:
        same = _volume(data["box"], controls.subject) == controls.volume
    except Problem:
        same = False
    if not same:
        raise Problem(
            409,
            "The price is for a different volume",
            f"The field contained {str(data['box'])[:40]!r}, but the price was for {controls.sold}. No quote was made. Check "
            "the price below and make the quote if you accept it.",
            kind=CHANGED,
        )


def step_of(volume: int) -> int:
    """Return the position of the largest slider step that does not exceed the volume."""
    return max((index for index, value in enumerate(STEPS) if value <= volume), default=0)


def volume_name(program: Program) -> str:
    """Return the name of the program's volume field."""
    return f"volume-{program.pk}"


def controls_read(
    data: Mapping[str, Any], *, organisation: Organisation, subject: Subject, klass: str, now: datetime
) -> Controls:
    """Read the controls from a form or a query string. Raises Problem.

    `klass`: the default class.
    """
    window = _window(data, zone=organisation.time_zone, now=now)
    return Controls(
        subject=subject,
        volume=_volume(data.get("volume"), subject),
        klass=window.picked_class or str(data.get("klass") or klass),
        pool=_pool(data.get("pool"), subject),
        start=window.start,
        end=window.end,
        zone=organisation.time_zone,
        form=_form(data.get("form"), subject),
        every=str(data.get("every") or "").strip(),
        unit=str(data.get("unit") or "d"),
        precision=str(data.get("precision") or Precision.FLOAT32),
        measured=bool(data.get("measured")),
        volumes=tuple(
            _count(data.get(volume_name(one)), 0, 0, MOST_EXECUTIONS, "executions") for one in subject.several
        ),
        name=str(data.get("name") or "")[:NAME_TYPED],
        start_passed=window.passed,
    )


class _Window(NamedTuple):
    start: datetime | None
    end: datetime | None
    passed: datetime | None
    picked_class: str


def _window(data: Mapping[str, Any], *, zone: str, now: datetime) -> _Window:
    pick, _, picked_class = str(data.get("pick") or "").partition("|")
    picked, end = _instant(pick, zone), _instant(data.get("end"), zone)
    if picked is not None:
        overtaken = end is not None and end <= picked
        return _Window(picked, picked + timedelta(days=1) if overtaken else end, None, picked_class)
    start = _instant(data.get("start"), zone)
    if start is not None and start <= now:
        return _Window(None, end, start, picked_class)
    return _Window(start, end, None, picked_class)


def _pool(slug: Any, subject: Subject) -> Pool | None:
    if slug:  # PostgreSQL accepts no NUL in texts, and no pool has one in its name
        return pool_get(str(slug).replace("\x00", "?"))
    return next(iter(pools_of(subject)), None)


def _form(name: Any, subject: Subject) -> str:
    if subject.is_quota:
        return FormName.QUOTA
    form = str(name or FormName.EXECUTION)
    if form not in OF_PROGRAMS:
        raise Problem(
            422, "Unknown form", f"Choose one of these contract forms: {', '.join(OF_PROGRAMS)}.", kind="form"
        )
    return form


def pools_of(subject: Subject) -> list[Pool]:
    """Return the pools that can run the subject."""
    if subject.programs:
        first, *others = (pools_fitting(program) for program in subject.programs)
        return [pool for pool in first if all(pool in some for some in others)]
    return [pool for pool in pools() if not pool.is_host] if subject.is_quota else []


def pools_missing(subject: Subject) -> list[dict[str, str]]:
    """Return the pools that cannot run the subject, with the reasons; empty for a plan."""
    if not subject.programs and not subject.is_quota:
        return []
    fitting = {pool.slug for pool in pools_of(subject)}
    return [{"title": pool.name, "reason": _unfit(subject, pool)} for pool in pools() if pool.slug not in fitting]


def _unfit(subject: Subject, pool: Pool) -> str:
    if subject.is_quota:
        return "Quotas are not sold on this pool: its speed is measured, not proven."
    if pool.is_host:
        return "This pool runs models in float32 and without states only. Compile the model like that to use this pool."
    target = pool.processor.name if pool.processor else pool.target
    if any(program.target == target for program in subject.programs):
        return f"This pool has a different version of the processor {target}. Compile the model again to use this pool."
    return f"This pool has the processor {target}. Compile the model for this processor to use this pool."


def pools_fitting(program: Program) -> list[Pool]:
    """Return the pools that can run a program; host pools are last."""
    fitting = [
        pool
        for pool in pools()
        if (pool.is_host and program.runs_on_host)
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
    if value is None:
        return default
    text = str(value).replace(",", "").replace("_", "").replace(" ", "")
    if not COUNT.fullmatch(text) or not least <= int(text) <= most:
        raise Problem(
            422,
            "Impossible volume",
            f"Enter a whole number of {unit} from {least} to {most:,}.",
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
            422, "Not a time", f"{str(value)[:40]!r} is not a date and time such as 2026-12-01T22:00.", kind="window"
        ) from error
    if not FIRST_YEAR <= instant.year <= LAST_YEAR:
        raise Problem(422, "Not a time", f"Enter a time between the years {FIRST_YEAR} and {LAST_YEAR}.", kind="window")
    return (instant if instant.tzinfo else instant.replace(tzinfo=zone_of(zone))).astimezone(UTC)
