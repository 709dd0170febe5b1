"""What is true of a plan's candidate, worked out anew from stored facts by plain code: nothing of the planner's, of admission's
or of rating's is used here.

Placement is exact. Work in one piece needs one free gap of its length. Work of one program may be cut into at most 64 windows:
two windows in one gap never hold more executions than one window that fills it, since each pays the start again and rounding
down twice loses more than once; so the most that fits is what the 64 gaps that hold the most hold together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import ceil, floor
from typing import TYPE_CHECKING, Any
from uuid import UUID

from benchmarks.trying import bound

if TYPE_CHECKING:
    from benchmarks.feasible_market import Market

MOST_WINDOWS = 64
LONGEST, USUAL = timedelta(days=62), timedelta(days=7)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(instant: datetime) -> int:
    """Microseconds since 1970."""
    return (instant - EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True)
class Work:
    """What a candidate asks: seconds that come once in a window (loading every program, its first result beyond an interval),
    and (executions, seconds of each) by program."""

    setup: Fraction
    parts: tuple[tuple[int, Fraction], ...]

    @property
    def seconds(self) -> Fraction:
        return self.setup + sum((count * each for count, each in self.parts), Fraction(0))


@dataclass
class Facts:
    """The stored facts that candidates are judged by."""

    market: Market
    classes: dict[str, Any]
    prices: dict[str, Any]
    gaps: dict[tuple[str, int, int], list[int]] = field(default_factory=dict)
    busy: dict[str, dict[Any, list[tuple[int, int]]]] = field(default_factory=dict)

    def window(self) -> tuple[int, int]:
        """The window of the task's quote, by its class."""
        return self.limits(self.market.until or self.market.now + USUAL, Fraction(0))

    def limits(self, until: datetime, seconds: Fraction) -> tuple[int, int]:
        """[begin, end) of a class in microseconds."""
        begin, end, rule = micros(self.market.now), micros(until), self.classes[self.market.klass]
        if rule["start_within_minutes"] is not None:
            end = min(end, begin + rule["start_within_minutes"] * 60 * 10**6 + ceil(seconds * 10**6))
        if rule["finish_within_minutes"] is not None:
            end = min(end, begin + rule["finish_within_minutes"] * 60 * 10**6)
        return begin, end

    def free(self, pool: str, begin: int, end: int) -> list[int]:
        """The lengths of the pool's free gaps in [begin, end), the longest first."""
        key = (pool, begin, end)
        if key not in self.gaps:
            found = []
            for taken in self._busy(pool).values():
                at = begin
                for start, stop in [*sorted(taken), (end, end)]:
                    if min(start, end) > at:
                        found.append(min(start, end) - at)
                    at = max(at, stop)
            self.gaps[key] = sorted(found, reverse=True)
        return self.gaps[key]

    def _busy(self, slug: str) -> dict[Any, list[tuple[int, int]]]:
        """Sold time of each active device of the pool."""
        if slug not in self.busy:
            from apps.fleet.models import Device
            from apps.timetable.models import Window

            taken: dict[Any, list[tuple[int, int]]] = {
                pk: [] for pk in Device.objects.filter(pool__slug=slug, state="active").values_list("pk", flat=True)
            }
            for device, period in Window.objects.filter(device__in=list(taken), state="active").values_list(
                "device", "period"
            ):
                taken[device].append((micros(period.lower), micros(period.upper)))
            self.busy[slug] = taken
        return self.busy[slug]

    def room(self, work: Work, pool: str, until: datetime, most: int | None = MOST_WINDOWS) -> int:
        """How many times the work's one program fits, at most as often as is asked; of several programs 1 where all fit."""
        begin, end = self.limits(until, work.seconds)
        gaps = self.free(pool, begin, end)
        whole = bool(gaps) and gaps[0] >= ceil(work.seconds * 10**6)
        if len(work.parts) > 1:
            return int(whole)
        ((count, each),) = work.parts
        if whole:
            return count
        held = (floor((Fraction(gap, 10**6) - work.setup) / each) for gap in gaps[:most])
        return min(count, sum(max(0, one) for one in held))

    def fits(self, work: Work, pool: str, until: datetime) -> bool:
        """Whether any placement exists."""
        return self.room(work, pool, until) >= (work.parts[0][0] if len(work.parts) == 1 else 1)

    def fits_freely(self, work: Work, pool: str, until: datetime) -> bool:
        """Whether it could fit with any number of windows, and each of several programs cut (there: the free time alone)."""
        if len(work.parts) == 1:
            return self.room(work, pool, until, None) >= work.parts[0][0]
        begin, end = self.limits(until, work.seconds)
        return sum(self.free(pool, begin, end)) >= work.seconds * 10**6


def facts_of(market: Market) -> Facts:
    """The price book that is in force at the market's moment, as it was published."""
    from apps.pricing.models import PriceBook

    book = PriceBook.objects.get(effective__contains=market.now).document
    return Facts(market, book["classes"], book["prices"])


def work_of(row: dict[str, Any], programs: dict[UUID, Any]) -> Work | None:
    """From cycles, clocks and power, on a host from what was measured; None where a program or its time is not there."""
    from apps.fleet.models import HostMeasurement, Pool

    if None in row["programs"]:
        return None
    pool = Pool.objects.get(slug=row["pool"])
    parts, first, load = [], Fraction(0), Fraction(0)
    for line in row["lines"]:
        program = programs[UUID(line["program"])]
        if pool.processor_id is None:
            measured = HostMeasurement.objects.filter(pool=pool, program_digest=program.digest).first()
            if measured is None:
                return None
            parts.append((line["executions"], Fraction(measured.p95_ns, 10**9)))
        else:
            clock = Fraction(program.clock_hz * pool.power_percent, 100)
            first += max(0, program.latency_cycles - program.interval_cycles) / clock
            load += program.resources.get("load", {"cycles_in": 0})["cycles_in"] / clock
            parts.append((line["executions"], program.interval_cycles / clock))
    return Work(first + load, tuple(parts))


def latency_of(row: dict[str, Any], work: Work, programs: dict[UUID, Any]) -> Fraction:
    """Of one item that passes every program."""
    from apps.fleet.models import Pool

    pool = Pool.objects.get(slug=row["pool"])
    if pool.processor_id is None:
        return sum((each for _, each in work.parts), Fraction(0))
    cycles = (programs[UUID(line["program"])] for line in row["lines"])
    return sum((Fraction(one.latency_cycles * 100, one.clock_hz * pool.power_percent) for one in cycles), Fraction(0))


@dataclass(frozen=True)
class Proven:
    """What the stored answers prove of a candidate: its accuracy, and for each later stage of a cascade the share of items that
    reach it."""

    accuracy: Fraction
    shares: tuple[Fraction, ...] = ()


def proven_of(row: dict[str, Any], programs: dict[UUID, Any], error: Fraction, market: Market) -> Proven | None:
    """From the stored answers, at the thresholds that the row names; None where a part was not evaluated."""
    from apps.fleet.models import Pool

    is_host = Pool.objects.values_list("processor", flat=True).get(slug=row["pool"]) is None
    narrow = row["title"].endswith(" in int8")
    found = [
        None
        if narrow and program is None
        else _answers(UUID(model["version"]), programs.get(UUID(program)) if program else None, is_host, market)
        for model, program in zip(row["models"], row["programs"], strict=True)
    ]
    if None in found:
        return None
    stages = [list(_answered(one)) for one in found]
    right, total = [right for right, _ in stages[0]], len(stages[0])
    on, shares = list(range(total)), []
    for threshold, before, after in zip(map(Fraction, row["thresholds"]), stages, stages[1:], strict=False):
        on = [item for item in on if before[item][1] < threshold]
        for item in on:
            right[item] = after[item][0]
        shares.append(1 - bound(total - len(on), total, error))
    return Proven(bound(sum(right), total, error), tuple(shares))


def _answers(version: UUID, program: Any, is_host: bool, market: Market) -> Any:
    """What the platform measured of the program; of a version's plan what its owner states of float32."""
    from apps.planner.models import Task
    from apps.registry.models import Evaluation

    rows = Evaluation.objects.filter(model_version=version)
    if isinstance(market.subject, Task):
        return None if program is None else rows.filter(program_digest=program.digest, is_host=is_host).first()
    return rows.filter(program_digest="").first() if program is None or program.precision == "float32" else None


def _answered(evaluation: Any) -> Iterator[tuple[bool, Fraction]]:
    part = evaluation.items["evaluate"]
    for label, said, sure in zip(part["labels"], part["predicted"], part["confidence"], strict=True):
        yield label == said, Fraction(sure)


def overlapping(rows: list[tuple[Any, int, int]]) -> int:
    """How many windows begin on a device before another one on it has ended; rows of (device, start, end)."""
    by_device: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    for device, start, end in rows:
        by_device[device].append((start, end))
    found = 0
    for windows in by_device.values():
        latest = None
        for start, end in sorted(windows):
            found += latest is not None and start < latest
            latest = end if latest is None else max(latest, end)
    return found
