"""The index of reports."""

from __future__ import annotations

from typing import NamedTuple

from apps.reports.period_reports.bounds import bounds
from apps.reports.period_reports.core import Report
from apps.reports.period_reports.deadlines import promises
from apps.reports.period_reports.executed import executed
from apps.reports.period_reports.gap_calendar import calendar
from apps.reports.period_reports.idle_cost import idle
from apps.reports.period_reports.load import load
from apps.reports.period_reports.stranded import stranded

CAPACITY = ("reports:capacity", "Open capacity")

REPORTS = {
    one.slug: one
    for one in (
        Report(
            "load",
            "Load by hour",
            "How busy is each pool by hour of the day: device time, link and memory?",
            load,
            "Nothing was sold and nothing ran in this period. Choose other days, or see which device time is free.",
            CAPACITY,
        ),
        Report(
            "stranded",
            "Stranded capacity",
            "Which device time could not be sold or was not used, and why?",
            stranded,
            "In this period, nothing was sold and no device was out of service, so no capacity was stranded.",
            CAPACITY,
        ),
        Report(
            "idle-cost",
            "Idle cost by owner",
            "Which customers reserved device time without using it, and what did the unused time cost?",
            idle,
            "No device time was reserved in this period. When contracts have reserved device time, this report "
            "shows how much of that time was not used.",
            CAPACITY,
        ),
        Report(
            "gaps",
            "Calendar of gaps",
            "How much device time is free on each day, and what could it earn?",
            calendar,
            "No device is in service, so no time is free. Add devices to a pool first.",
            ("fleet:fleet", "Open the fleet"),
            is_ahead=True,
        ),
        Report(
            "deadlines",
            "Deadlines kept",
            "Did blocks of work run as promised, and what did repeated work cost?",
            promises,
            "No block was due in this period. Once a customer's job has run, this report shows whether its promise was kept.",
            CAPACITY,
        ),
        Report(
            "executed",
            "Predicted and executed",
            "Did programs take as many cycles and seconds as predicted?",
            executed,
            "Nothing ran in this period. Once a job has run, this report compares its counts with the compiler's.",
            CAPACITY,
        ),
        Report(
            "bound",
            "Distance to the bound",
            "How many devices does sold work use, and how many would be enough?",
            bounds,
            "No capacity plan was made in this period. A plan is made every night, and on request.",
            ("reports:capacity_plan_list", "Make a capacity plan"),
        ),
    )
}


class Elsewhere(NamedTuple):
    """A report that has its own page."""

    route: str
    title: str
    line: str


ELSEWHERE = (
    Elsewhere(
        "reports:capacity",
        "Capacity of a day",
        "What did each pool sell and run on one day, and which requests were refused?",
    ),
    Elsewhere(
        "reports:forecast",
        "Headroom",
        "When does demand exceed each pool's capacity in a low, a middle and a high forecast?",
    ),
    Elsewhere(
        "reports:revenue",
        "Revenue and margin",
        "How much revenue came from each pool, class and customer, and at what cost?",
    ),
    Elsewhere("reports:what_if", "What if", "What if devices, power, demand or prices change?"),
    Elsewhere(
        "reports:capacity_plan_list", "Capacity plans", "How many devices are enough for the work that has been sold?"
    ),
    Elsewhere("reports:reconciliation_list", "Reconciliation", "Was everything that ran metered, rated and invoiced?"),
)
