"""Simulates a datacenter event by event: devices, resident programs, requests and reservations.

Pure: no database, no Django, no clock. The same seed gives the same bytes.

>>> import numpy as np
>>> device = DeviceType("d", 1, clock_hz=1_000_000, memory_bytes=100, link_bytes=1_000_000, busy_mw=10, idle_mw=1)
>>> program = Program("p", interval=1_000, latency=1_500, memory_bytes=50)
>>> asked = Requests(np.array([0, 100]), np.array([0, 0]), np.array([2, 1]))
>>> told = simulate(Scenario((device,), (program,), asked, until=10_000), [Placed(0, (0,))])
>>> told.served, told.wait_p99, told.busy  # the second request waits for 50 us of loading and 2,500 us of running
(2, 2450, 4050)
"""

from apps.planner.datacenter.placing import (
    FILLED,
    POLICIES,
    dot_product_fit,
    first_fit,
    items_of,
    one_each,
    spare_filled,
)
from apps.planner.datacenter.report import Report, report_of
from apps.planner.datacenter.shaping import requests_like
from apps.planner.datacenter.simulator import Outcome, Simulator
from apps.planner.datacenter.types import (
    DAY,
    SECOND,
    Booking,
    DeviceType,
    Item,
    NoRoom,
    Placed,
    Placer,
    Program,
    Requests,
    Scenario,
)

__all__ = [
    "DAY",
    "FILLED",
    "POLICIES",
    "SECOND",
    "Booking",
    "DeviceType",
    "Item",
    "NoRoom",
    "Outcome",
    "Placed",
    "Placer",
    "Program",
    "Report",
    "Requests",
    "Scenario",
    "Simulator",
    "dot_product_fit",
    "first_fit",
    "items_of",
    "one_each",
    "report_of",
    "requests_like",
    "simulate",
    "spare_filled",
]


def simulate(scenario: Scenario, placed: list[Placed]) -> Report:
    """Run a scenario and return its report."""
    return report_of(scenario, Simulator(scenario, placed).run())
