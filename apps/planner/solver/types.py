"""The input and output of the solver."""

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
    """The requirements of a task. None means no requirement.

    `latency` is in seconds for one item, `duration` in device seconds for all items, and `completion` in seconds from
    now. `budget` is in the price book's currency. `objective` is one of OBJECTIVES. `metric` is the metric's title.
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
    """The device time in seconds that a candidate needs on a pool.

    `setup` is the part that occurs once. `quantum` is the indivisible part of the work; None if the work is not
    divided.
    """

    pool: str
    duration: Fraction
    setup: Fraction
    quantum: Fraction | None


@dataclass(frozen=True)
class Placed:
    """The seconds until a demand would be finished if it were accepted now.

    `completion` is None if the demand can't be finished; `reason` says why.
    """

    completion: Fraction | None
    reason: str = ""


Capacity = Callable[[Demand], Placed]


def idle(demand: Demand) -> Placed:
    """Place a demand as if the pool had no other work."""
    return Placed(demand.duration)


@dataclass(frozen=True)
class Variant:
    """A model on one pool: a compiled program, or the reasons why there is none (`missing`).

    `price(n)` returns the exact price of n executions, or raises ValueError with a sentence. `least` is the minimum
    price of a contract. `latency`, `interval` and `load` are in seconds. `certainty` is "exact", "bound" or "measured".
    Variants can be combined if `takes` is equal and `program` differs. A vote also needs equal numbers of `classes`;
    None means no classes.
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
    """The executions of a variant: `executions` are reserved, and `expected` are likely.

    `per_item` is the maximum share of items that need an execution.
    """

    key: str
    executions: int
    expected: int
    per_item: Fraction = Fraction(1)


@dataclass(frozen=True)
class Candidate:
    """A single program or a combination on one pool, feasible if there are no `reasons` against it.

    `accuracy` is a lower bound. `gaps` are the requirements that could be relaxed, each with the value that the
    candidate needs. `shares` are upper bounds of the shares of items that fall back. `price` is the price of the
    executions; candidates are compared by this price.
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
        """The price of the quote, at least the minimum price of a contract; None if there is no price."""
        return None if self.price is None else max(self.price, self.least)

    @property
    def feasible(self) -> bool:
        return not self.reasons

    @property
    def threshold(self) -> Decimal | None:
        return next(iter(self.thresholds), None)

    @property
    def share(self) -> Fraction | None:
        return next(iter(self.shares), None)

    @property
    def output(self) -> str:
        return next(iter(self.outputs), "")


@dataclass(frozen=True)
class Change:
    """A change that makes a candidate feasible.

    `candidate` is the index of the candidate, and `price` the candidate's price. `values` are the relaxed requirements.
    """

    values: tuple[tuple[str, Fraction], ...]
    candidate: int
    price: Decimal


@dataclass(frozen=True)
class Narrowed:
    """A pool on which only `used` of the `known` programs were combined."""

    pool: str
    used: int
    known: int


@dataclass(frozen=True)
class Solution:
    """All candidates, sorted from best to worst, with infeasible candidates last.

    `chosen` is the index of the best feasible candidate. If no candidate is feasible, `chosen` is None, and `changes`
    are the ways to make a candidate feasible. `examined` is the number of single programs and combinations that were
    compared. `bounds` is the number of bounds; each bound is wrong with probability at most `error`.
    """

    candidates: tuple[Candidate, ...]
    chosen: int | None
    changes: tuple[Change, ...]
    examined: int
    error: Fraction
    bounds: int = 1
    narrowed: tuple[Narrowed, ...] = ()
