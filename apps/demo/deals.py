"""The contracts that the demo's customer buys. Times are relative to midnight (UTC) of the demo's first day."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction

from apps.demo.shapes import FULL, WEEK
from apps.sales.models import FormName
from apps.sales.services import MOST_EXECUTIONS, Quota
from apps.sales.volumes import PER_EXECUTION, Form

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
DAILY = Form(FormName.SPREAD, Fraction(86_400))
LENGTH = 33 * DAY


@dataclass(frozen=True)
class Deal:
    """A contract to create.

    `hours` is the device time of the whole contract. `week` is the share of the reserved time used on each weekday.
    """

    name: str
    model: str
    batch: int
    pool: str
    klass: str
    form: Form
    hours: int
    accepted: timedelta
    starts: timedelta
    ends: timedelta
    week: tuple[float, ...] = FULL
    quota: Quota | None = None

    def volume(self, each: Fraction, parts: int) -> int:
        """Return the number of executions that fit in `hours`, rounded down to a multiple of `parts`."""
        whole = min(int(self.hours * 3600 / each), MOST_EXECUTIONS)
        return whole // parts * parts


# In the order in which they are accepted.
DEALS = (
    Deal(
        "Line inspection, every day",
        "digits-batch",
        256,
        "lpu-a",
        "standard",
        DAILY,
        28 * 16,
        accepted=-29 * DAY + 9 * HOUR,
        starts=-28 * DAY + 5 * HOUR,
        ends=5 * HOUR,
        week=WEEK,
    ),
    Deal(
        "Incoming goods, urgent",
        "digits-large",
        1,
        "lpu2-b",
        "priority",
        PER_EXECUTION,
        20,
        accepted=-27 * DAY + 8 * HOUR,
        starts=-27 * DAY + 8 * HOUR,
        ends=-25 * DAY,
    ),
    Deal(
        "Robot arms, every day",
        "digits-batch",
        1024,
        "lpu2-b",
        "standard",
        DAILY,
        21 * 22,
        accepted=-25 * DAY + 10 * HOUR,
        starts=-24 * DAY,
        ends=-3 * DAY,
        week=WEEK,
    ),
    Deal(
        "Research quota",
        "digits-small",
        1,
        "lpu-a",
        "standard",
        Form(FormName.QUOTA),
        0,
        accepted=-21 * DAY + 11 * HOUR,
        starts=-21 * DAY + 11 * HOUR,
        ends=10 * DAY,
        quota=Quota("float32", 4_000_000),
    ),
    Deal(
        "Archive, at night",
        "digits-batch",
        1024,
        "lpu-a",
        "off_peak",
        PER_EXECUTION,
        80,
        accepted=-16 * DAY + 9 * HOUR,
        starts=-16 * DAY + 12 * HOUR,
        ends=-2 * DAY,
    ),
)


def deals(*, now: datetime, midnight: datetime) -> list[Deal]:
    """Return the contracts in the order of acceptance."""
    today = now - midnight
    recount = Deal(
        "Recount of yesterday",
        "digits-batch",
        1024,
        "lpu-a",
        "batch",
        PER_EXECUTION,
        17,
        accepted=today - 19 * HOUR,
        starts=today - 19 * HOUR,
        ends=today - HOUR,
    )
    return [*DEALS, recount]
