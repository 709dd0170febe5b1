"""The list of reports, in the order of the index; those that stand on pages of their own are linked."""

from __future__ import annotations

from typing import NamedTuple

from apps.reports.sheets.ahead import calendar
from apps.reports.sheets.bounds import bounds
from apps.reports.sheets.core import Report
from apps.reports.sheets.executed import executed
from apps.reports.sheets.idle import idle
from apps.reports.sheets.load import load
from apps.reports.sheets.promises import promises
from apps.reports.sheets.stranded import stranded

CAPACITY, CONTRACTS = ("reports:capacity", "Open capacity"), ("reports:capacity", "See free windows")

REPORTS = {
    one.slug: one
    for one in (
        Report(
            "load",
            "Load by hour",
            "How full is every pool in each hour of the day: time, link, memory?",
            load,
            "Nothing was sold and nothing ran in these days. Choose others, or look at what is free.",
            CAPACITY,
        ),
        Report(
            "stranded",
            "Stranded capacity",
            "Which owned device time could nobody use, and why?",
            stranded,
            "Nothing was sold and nothing was out of service in these days, so no capacity was stranded.",
            CAPACITY,
        ),
        Report(
            "idle-cost",
            "Idle cost by owner",
            "Who bought device time and did not use it, and what did that cost?",
            idle,
            "Nobody held device time in these days. Once contracts have windows, this says what was left unused.",
            CAPACITY,
        ),
        Report(
            "gaps",
            "Calendar of gaps",
            "What is still free on which day, and what would it fetch?",
            calendar,
            "No device is in service, so nothing is free. Add devices to a pool first.",
            ("fleet:fleet", "Open the fleet"),
            is_ahead=True,
        ),
        Report(
            "deadlines",
            "Deadlines kept",
            "What was promised beside what was done, and what repeats cost.",
            promises,
            "No block was due in these days. Once a customer's job has run, this says whether its promise was kept.",
            CAPACITY,
        ),
        Report(
            "executed",
            "Predicted and executed",
            "Did programs take the cycles and seconds that were predicted?",
            executed,
            "Nothing ran in these days. Once a job has run, its counts stand beside those of the compiler.",
            CAPACITY,
        ),
        Report(
            "bound",
            "Distance to the bound",
            "How many devices does sold work use, and how few could hold it?",
            bounds,
            "No capacity plan was made in these days. One is made every night, and when you ask for it.",
            ("reports:capacity_plan_list", "Make a capacity plan"),
        ),
    )
}


class Elsewhere(NamedTuple):
    """A report with a page of its own."""

    route: str
    title: str
    line: str


ELSEWHERE = (
    Elsewhere(
        "reports:capacity", "Capacity of a day", "What did every pool sell and run on a day, and what was refused?"
    ),
    Elsewhere(
        "reports:forecast", "Headroom", "When does each pool's headroom end, by a low, middle and high forecast?"
    ),
    Elsewhere(
        "reports:revenue", "Revenue and margin", "What did each pool, class and customer bring in, and at what cost?"
    ),
    Elsewhere("reports:what_if", "What if", "What would other devices, power, demand or prices change?"),
    Elsewhere("reports:capacity_plan_list", "Capacity plans", "How few devices would hold what is sold?"),
    Elsewhere("reports:reconciliation_list", "Reconciliation", "Is everything that ran metered, priced and invoiced?"),
)
