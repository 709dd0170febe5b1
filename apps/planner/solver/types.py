"""What goes into the planner and what comes out."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from apps.planner.solver.answers import Evaluated

COST, LATENCY, DEVICE_TIME = "cost", "latency", "device_time"
OBJECTIVES = (COST, LATENCY, DEVICE_TIME)


@dataclass(frozen=True)
class Requirements:
    """What a task states; None where it states nothing. `objective`: of what the chosen candidate has least, one of
    OBJECTIVES: the price, the latency of one item, or the device time of all items (the fewest devices for so long).

    `accuracy`: least lower confidence bound; `latency`: most seconds for one item; `items`: how many; `duration`: most
    seconds of device time for all of them; `completion`: most seconds from now until all of them are done, waiting for
    free devices included; `budget`: most money for all of them, in the price book's currency. `metric`: the title of what the
    accuracy is measured by, for the sentences.
    """

    items: int
    accuracy: Fraction | None = None
    latency: Fraction | None = None
    duration: Fraction | None = None
    completion: Fraction | None = None
    budget: Decimal | None = None
    objective: str = COST
    metric: str = "accuracy"


@dataclass(frozen=True)
class Demand:
    """What a candidate asks of a pool, in seconds of device time: all of it, the part that comes once (`setup`), and of a
    single program the part that is never cut (`quantum`); work of several programs stays in one piece."""

    pool: str
    duration: Fraction
    setup: Fraction
    quantum: Fraction | None


@dataclass(frozen=True)
class Placed:
    """When a demand would be done if it were accepted now, in seconds from now; None with the `reason` against it."""

    completion: Fraction | None
    reason: str = ""


Capacity = Callable[[Demand], Placed]


def idle(demand: Demand) -> Placed:
    """The capacity of a pool that nobody else uses."""
    return Placed(demand.duration)


@dataclass(frozen=True)
class Variant:
    """A model as it runs on one pool: a compiled program, or what keeps it from being one (`missing`).

    `price(n)` is the exact amount for n executions; it raises `ValueError` with a sentence where nothing is priced.
    `least`: what a contract costs at least, however little runs. `latency` and `interval` in seconds; `certainty` says how
    they are known: "exact", "bound" or "measured". `load`: seconds until the program is on a device, once in each window.
    What two variants need to work together: equal `takes` (what one item is, on which items they were evaluated), different
    `program`s, and for an ensemble the same number of `classes` (None: its output gives no class).
    """

    key: str
    model: str
    pool: str
    price: Callable[[int], Decimal] = field(compare=False)
    evaluated: Evaluated | None = None
    latency: Fraction | None = None
    interval: Fraction | None = None
    load: Fraction = Fraction(0)
    certainty: str = "exact"
    missing: tuple[str, ...] = ()
    least: Decimal = Decimal(0)
    takes: Hashable = None
    program: str = ""
    classes: int | None = 0


@dataclass(frozen=True)
class Use:
    """So many executions of a variant; `expected` when fewer are expected than must be reserved, `per_item` the share of the
    items that may need one."""

    key: str
    executions: int
    expected: int
    per_item: Fraction = Fraction(1)


@dataclass(frozen=True)
class Candidate:
    """One way to do the task. `reasons` says what speaks against it; none means feasible.

    `accuracy` is the lower bound that holds together with all others' bounds; `gaps` are the requirements that could be
    relaxed, each with the value that this candidate would need. Of a cascade `thresholds`, `shares` (bounds of what goes on) and
    `outputs` (which give the confidences) have an entry for each part but the last; of an ensemble `outputs` has one for each
    part (which give the answers). `price` is what its executions come to, by which candidates
    are compared; `total_price` is what a quote for them says, which a budget is compared with.
    """

    kind: str
    title: str
    pool: str
    uses: tuple[Use, ...]
    accuracy: Fraction | None
    correct: int | None
    total: int | None
    latency: Fraction | None
    duration: Fraction | None
    completion: Fraction | None
    certainty: str
    price: Decimal | None
    reasons: tuple[str, ...]
    gaps: tuple[tuple[str, Fraction], ...] = ()
    thresholds: tuple[Decimal, ...] = ()
    shares: tuple[Fraction, ...] = ()
    outputs: tuple[str, ...] = ()
    on_frontier: bool = False
    least: Decimal = Decimal(0)

    @property
    def total_price(self) -> Decimal | None:
        """The price, or the minimum of its contract where that is more."""
        return None if self.price is None else max(self.price, self.least)

    @property
    def feasible(self) -> bool:
        return not self.reasons

    @property
    def threshold(self) -> Decimal | None:
        """The first of a cascade."""
        return next(iter(self.thresholds), None)

    @property
    def share(self) -> Fraction | None:
        """The bound of what goes on from the first part of a cascade."""
        return next(iter(self.shares), None)

    @property
    def output(self) -> str:
        """The output that tells the first part's confidence."""
        return next(iter(self.outputs), "")


@dataclass(frozen=True)
class Change:
    """Relaxing these requirements to these values makes the candidate with that index feasible, at that price."""

    values: tuple[tuple[str, Fraction], ...]
    candidate: int
    price: Decimal


@dataclass(frozen=True)
class Narrowed:
    """Combinations on a pool were made of `used` of its `known` programs alone."""

    pool: str
    used: int
    known: int


@dataclass(frozen=True)
class Solution:
    """Every candidate, the best first and infeasible ones last; the chosen one's index; changes when there is none.

    Every variant alone is a candidate, and of the combinations of a pool those that the choosing part found most promising:
    the chosen one is the best of them all. `examined` counts every single and every combination that was looked at, `bounds`
    how many bounds share the error: each is made at `error`.
    """

    candidates: tuple[Candidate, ...]
    chosen: int | None
    changes: tuple[Change, ...]
    examined: int
    error: Fraction
    bounds: int = 1
    narrowed: tuple[Narrowed, ...] = ()
