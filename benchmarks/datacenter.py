"""A simulated day of a datacenter: `python -m benchmarks.datacenter [--requests N] [--devices N] [SEED]`

5 million requests to 2,000 programs on 10,000 devices of four types, with 5,000 reservations that are booked during the day.
Arrivals repeat Azure's public trace of requests to a language model (58 minutes, CC-BY 4.0; Splitwise, ISCA 2024), each
within half a second of where the trace has it; its generated tokens are a request's executions. Programs are made up from SEED:
popularity falls with the rank, sizes differ by a factor of fifty, and cycles are scaled so that the day asks for half of the
fleet's time. Nothing else is set to the devices.

Printed: devices that this demand needs by dot-product fit, by first fit and with one model on each device; then the day on the
whole fleet: requests served, waits, reservations missed, use, energy, seconds and how many times faster than real time. It is
run twice. Ends with status 1 when a reservation that was accepted is missed, when the two runs differ in a byte, or when a
run is slower than 100 times real time.
"""

from __future__ import annotations

import csv
import resource
import sys
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np

from apps.planner.datacenter import (
    DAY,
    FILLED,
    POLICIES,
    SECOND,
    Booking,
    DeviceType,
    NoRoom,
    Placed,
    Program,
    Report,
    Requests,
    Scenario,
    dot_product_fit,
    items_of,
    one_each,
    requests_like,
    simulate,
    spare_filled,
)
from benchmarks.arguments import parser, whole
from benchmarks.data import given_or_fetched

FASTEST = 100
LOAD = 0.5  # of the devices' time
BOOKINGS = 5_000
GIB = 1 << 30
# name, share of the fleet, clock, memory, link, milliwatts busy and idle
TYPES = (
    ("a", 0.4, 900_000_000, 16 * GIB, 16 * GIB, 275_000, 80_000),
    ("b", 0.3, 1_200_000_000, 24 * GIB, 32 * GIB, 400_000, 110_000),
    ("c", 0.2, 700_000_000, 8 * GIB, 8 * GIB, 90_000, 25_000),
    ("d", 0.1, 1_500_000_000, 64 * GIB, 64 * GIB, 700_000, 190_000),
)


def main(arguments: list[str]) -> int:
    command = parser("datacenter", __doc__ or "")
    command.add_argument("--requests", type=whole, default=5_000_000)
    command.add_argument("--devices", type=whole, default=10_000)
    command.add_argument("--programs", type=whole, default=2_000)
    command.add_argument("--azure", type=Path, help="Azure's trace; fetched unless given")
    command.add_argument("seed", nargs="?", type=whole, default=1, help="default: 1")
    options = command.parse_args(arguments)
    if min(options.requests, options.programs) < 1 or options.devices < 10:
        command.error("there must be at least one request, one program and ten devices")
    azure = given_or_fetched(options.azure, "azure-llm", command)
    began = time.perf_counter()
    scenario = made_up(options.requests, options.devices, options.programs, azure, options.seed)
    print(
        f"seed {options.seed}: {len(scenario.requests.at):,} requests, {options.devices:,} devices, {options.programs:,} "
        f"programs, {len(scenario.bookings):,} bookings, made in {time.perf_counter() - began:.1f} s"
    )
    _needed(scenario)
    items = items_of(scenario)
    placed = spare_filled(dot_product_fit(items, scenario.devices), scenario)
    return _days(scenario, placed)


def _needed(scenario: Scenario) -> None:
    """Devices of the fleet by each policy; where the fleet does not suffice, of one with twice as many of each type."""
    double = tuple(replace(one, count=2 * one.count) for one in scenario.devices)
    for name, policy in POLICIES.items():
        items = items_of(scenario, piece=FILLED) if policy is one_each else items_of(scenario)
        began = time.perf_counter()
        try:
            needed = f"{len(policy(items, scenario.devices)):,} devices"
        except NoRoom:
            needed = f"{len(policy(items, double)):,} devices, more than there are"
        print(
            f"  {name:15} {needed}; {len(items):,} copies, planned in {time.perf_counter() - began:.1f} s", flush=True
        )


def _days(scenario: Scenario, placed: list[Placed]) -> int:
    reports, slowest = [], 0.0
    for _ in range(2):
        began = time.perf_counter()
        reports.append(simulate(scenario, placed))
        slowest = max(slowest, time.perf_counter() - began)
    report, ratio = reports[0], scenario.until / SECOND / slowest
    _told(report)
    same = reports[0] == reports[1]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"  the slower of two runs took {slowest:.0f} s, {ratio:.0f} x real time; {peak:,} MiB at most")
    print(f"  digest {report.digest}" + (", both times" if same else "; the second run DIFFERS"))
    return 0 if same and report.missed == 0 and ratio >= FASTEST else 1


def _told(report: Report) -> None:
    seconds = [f"{wait / SECOND:.3f} s" for wait in (report.wait_p50, report.wait_p95, report.wait_p99)]
    print(f"  served {report.served:,}, still waiting {report.waiting:,}; {report.waited:,} waited")
    print(f"  waits p50 {seconds[0]}, p95 {seconds[1]}, p99 {seconds[2]}")
    print(f"  reservations: {report.accepted:,} accepted of {report.bookings:,}, {report.missed:,} missed")
    print(
        f"  {report.devices:,} devices busy {report.utilisation:.1%} of the day, {report.loads:,} programs loaded, "
        f"{report.energy_mj / 3.6e12:,.1f} MWh"
    )


def made_up(requests: int, devices: int, programs: int, azure: Path, seed: int) -> Scenario:
    """The day, from the seed and the trace."""
    dice = np.random.default_rng(seed)
    at, executions = _trace(azure)
    popularity = 1.0 / np.arange(1, programs + 1) ** 0.8
    asked = requests_like(at, executions, count=requests, until=DAY, popularity=popularity, dice=dice)
    kinds = tuple(
        DeviceType(name, round(share * devices), clock, memory, link, busy, idle)
        for name, share, clock, memory, link, busy, idle in TYPES
    )
    cycles = dice.lognormal(0, 0.7, programs)
    wanted = LOAD * DAY / SECOND * sum(kind.count * kind.clock_hz for kind in kinds)
    cycles *= wanted / float((cycles[asked.program] * asked.executions).sum())
    sizes = np.minimum(dice.lognormal(np.log(1.5 * GIB), 0.8, programs), 7.5 * GIB)
    rows = enumerate(zip(cycles.tolist(), sizes.tolist(), strict=True))
    made = tuple(Program(f"p{n}", int(one) + 1, int(one * 1.5) + 1, int(size)) for n, (one, size) in rows)
    return Scenario(kinds, made, asked, _bookings(asked, made, kinds, dice))


def _trace(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Microseconds from the first request on, and generated tokens."""
    with path.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    at = [datetime.fromisoformat(row["TIMESTAMP"]) for row in rows]
    micros = [round((one - at[0]).total_seconds() * SECOND) for one in at]
    return np.array(micros, dtype=np.int64), np.array([int(row["GeneratedTokens"]) for row in rows], dtype=np.int64)


def _bookings(
    asked: Requests, programs: tuple[Program, ...], kinds: tuple[DeviceType, ...], dice: np.random.Generator
) -> tuple[Booking, ...]:
    """Windows of one to thirty minutes, ten minutes to six hours ahead, within two hours."""
    count = min(BOOKINGS, len(asked.at))
    found = []
    for at in np.sort(dice.integers(0, DAY, count)).tolist():
        program = int(asked.program[dice.integers(0, len(asked.at))])
        length = int(dice.integers(60, 1800))
        executions = max(1, length * kinds[0].clock_hz // programs[program].interval)
        begin = at + int(dice.integers(600, 21_600)) * SECOND
        found.append(Booking(at, program, executions, begin, begin + 7200 * SECOND))
    return tuple(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
