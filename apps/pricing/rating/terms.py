"""The inputs and outputs of a rating: counts, terms, steps and the result.

New fields are omitted from the JSON if they have their default value, so that older documents keep their digests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from json.encoder import encode_basestring as _quoted
from typing import Any

from apps.pricing.rating.book import NO_COMMITMENT
from apps.pricing.rating.decimals import CONTEXT, TERA, canonical_json, decimal_text, multiply
from apps.pricing.rating.errors import RatingError

EXECUTION, QUOTA, SPREAD, INTERVAL = "execution", "quota", "spread", "interval"
FORMS = (EXECUTION, QUOTA, SPREAD, INTERVAL)

TIMES = "times"
PER_TERA = "times-per-tera"
LARGER = "larger"
SMALLER = "smaller"
PLUS = "plus"


@dataclass(frozen=True)
class Counts:
    """The operations and the cycles (initiation interval) of one execution of a compiled program."""

    operations: int
    cycles: int

    def to_json(self) -> dict[str, int]:
        return {"operations": self.operations, "cycles": self.cycles}

    @staticmethod
    def from_json(document: dict[str, Any]) -> Counts:
        return Counts(operations=int(document["operations"]), cycles=int(document["cycles"]))


@dataclass(frozen=True)
class Schedule:
    """A schedule of `intervals` intervals of `every` seconds, with `each` executions per interval."""

    each: int
    every: Fraction
    intervals: int

    @property
    def executions(self) -> int:
        return self.each * self.intervals

    @staticmethod
    def between(*, each: int, every: Fraction, start: datetime, end: datetime) -> Schedule:
        """Return a schedule with as many whole intervals as fit into [start, end). Raises RatingError if no interval
        fits.
        """
        if each < 1 or every <= 0:
            raise RatingError("An interval must be longer than 0 seconds and have at least one execution.")
        span = end.astimezone(UTC) - start.astimezone(UTC)
        microseconds = (span.days * 86_400 + span.seconds) * 10**6 + span.microseconds
        intervals = int(Fraction(microseconds, 10**6) / every)
        if intervals < 1:
            raise RatingError(f"No whole interval of {every} s fits into the period; make the period longer.")
        return Schedule(each, every, intervals)

    def to_json(self) -> dict[str, Any]:
        return {"each": self.each, "every": str(self.every), "intervals": self.intervals}

    @staticmethod
    def from_json(document: dict[str, Any]) -> Schedule:
        return Schedule(int(document["each"]), Fraction(document["every"]), int(document["intervals"]))


@dataclass(frozen=True)
class Terms:
    """The agreed terms of a price: processor class, precision, class of service, commitment and form.

    `instant` determines the tariff period. `instant` is required if the class is off-peak only or its price depends on
    the hour. `discounts` maps names to additional factors, above 0 and at most 1. If `measured` is True, data-dependent
    programs are charged for their measured counts. `served` is the class in which the work ran, if lower than the
    class bought. `commitment_factor` is the agreed factor; None means the factor in the price book.
    """

    processor_class: str
    precision: str
    klass: str
    commitment: str = NO_COMMITMENT
    instant: datetime | None = None
    discounts: Mapping[str, Decimal] = field(default_factory=dict)
    form: str = EXECUTION
    schedule: Schedule | None = None
    measured: bool = False
    served: str = ""
    commitment_factor: Decimal | None = None

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "processor_class": self.processor_class,
            "precision": self.precision,
            "klass": self.klass,
            "commitment": self.commitment,
            "instant": None if self.instant is None else self.instant.astimezone(UTC).isoformat(),
            "discounts": {name: decimal_text(factor) for name, factor in sorted(self.discounts.items())},
        }
        if self.form != EXECUTION:
            document["form"] = self.form
        if self.schedule is not None:
            document["schedule"] = self.schedule.to_json()
        if self.measured:
            document["measured"] = True
        if self.served:
            document["served"] = self.served
        if self.commitment_factor is not None:
            document["commitment_factor"] = decimal_text(self.commitment_factor)
        return document

    @cached_property
    def text(self) -> str:
        return canonical_json(self.to_json())

    @staticmethod
    def from_json(document: dict[str, Any]) -> Terms:
        schedule, factor = document.get("schedule"), document.get("commitment_factor")
        return Terms(
            processor_class=document["processor_class"],
            precision=document["precision"],
            klass=document["klass"],
            commitment=document["commitment"],
            instant=None if document["instant"] is None else datetime.fromisoformat(document["instant"]),
            discounts={name: Decimal(factor) for name, factor in document["discounts"].items()},
            form=document.get("form", EXECUTION),
            schedule=None if schedule is None else Schedule.from_json(schedule),
            measured=bool(document.get("measured", False)),
            served=document.get("served", ""),
            commitment_factor=None if factor is None else Decimal(factor),
        )


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a price. `operation` combines `input` and `factor` into `result`: `times`, `times-per-tera` (the
    product divided by 10^12), `larger`, `smaller` or `plus`.
    """

    name: str
    title: str
    operation: str
    input: Decimal
    factor: Decimal
    result: Decimal
    unit: str
    rule: str

    def to_json(self) -> dict[str, str]:
        return {
            "name": self.name,
            "title": self.title,
            "operation": self.operation,
            "input": decimal_text(self.input),
            "factor": decimal_text(self.factor),
            "result": decimal_text(self.result),
            "unit": self.unit,
            "rule": self.rule,
        }

    @staticmethod
    def from_json(document: dict[str, str]) -> Step:
        return Step(
            name=document["name"],
            title=document["title"],
            operation=document["operation"],
            input=Decimal(document["input"]),
            factor=Decimal(document["factor"]),
            result=Decimal(document["result"]),
            unit=document["unit"],
            rule=document["rule"],
        )


@lru_cache(maxsize=1024)
def _words(name: str, title: str, operation: str, unit: str, rule: str) -> tuple[str, str]:
    return (
        f'","name":{_quoted(name)},"operation":{_quoted(operation)},"result":"',
        f'","rule":{_quoted(rule)},"title":{_quoted(title)},"unit":{_quoted(unit)}}}',
    )


def _steps_text(steps: Iterable[Step]) -> str:
    parts, value, text = [], Decimal(0), "0"
    for step in steps:
        if step.input != value:
            value, text = step.input, decimal_text(step.input)
        given = text
        if step.result != value:
            value, text = step.result, decimal_text(step.result)
        between, behind = _words(step.name, step.title, step.operation, step.unit, step.rule)
        parts.append(f'{{"factor":"{decimal_text(step.factor)}","input":"{given}{between}{text}{behind}')
    return ",".join(parts)


_COMPUTED: dict[str, Callable[[Decimal, Decimal], Decimal]] = {
    TIMES: multiply,
    PER_TERA: lambda left, right: CONTEXT.scaleb(multiply(left, right), -TERA),
    LARGER: max,
    SMALLER: min,
    PLUS: CONTEXT.add,
}


def step_of(
    name: str, title: str, operation: str, value: Decimal | int, factor: Decimal | int, unit: str, rule: str
) -> Step:
    """Compute the result of a step, and return the step."""
    left, right = Decimal(value), Decimal(factor)
    return Step(name, title, operation, left, right, _COMPUTED[operation](left, right), unit, rule)


@dataclass(frozen=True)
class Rating:
    """A price and its derivation: all inputs, every step, and the exact amount.

    `measured`: the total counts of each lease. `periods`: the number of executions by tariff period; None if all are
    priced at the agreed period. `missed`: the amount is a credit for guaranteed work that was not finished in time.
    `late`: the amount is the additional charge for a late release. `charged`: the total of a contract's lines, for a
    rating of the contract minimum.
    """

    book_version: int
    book_digest: str
    counts: Counts
    executions: int
    terms: Terms
    unused: bool
    steps: tuple[Step, ...]
    amount: Decimal
    currency: str
    missed: bool = False
    measured: tuple[Counts, ...] | None = None
    periods: Mapping[str, int] | None = None
    charged: Decimal | None = None
    late: bool = False

    @property
    def billed_operations(self) -> int:
        """The number of operations on which the price is based; 0 for a contract minimum and for a late release."""
        return 0 if self.charged is not None or self.late else int(self.step("billed").result)

    @property
    def counted_operations(self) -> int:
        """The counted operations of all executions; 0 for a late release."""
        return 0 if self.late else self.counts.operations * self.executions

    @cached_property
    def text(self) -> str:
        """The canonical JSON text of the rating, equal to `canonical_json(self.to_json())`."""
        measured = ""
        if self.measured is not None:
            measured = f'"measured":{canonical_json([item.to_json() for item in self.measured])},'
        missed = '"missed":true,' if self.missed else ""
        periods = "" if self.periods is None else f'"periods":{canonical_json(dict(self.periods))},'
        late = '"late":true,' if self.late else ""
        charged = "" if self.charged is None else f'"charged":"{decimal_text(self.charged)}",'
        return (
            f'{{"amount":"{decimal_text(self.amount)}","book_digest":{_quoted(self.book_digest)},'
            f'"book_version":{self.book_version:d},{charged}"counts":{{"cycles":{self.counts.cycles:d},'
            f'"operations":{self.counts.operations:d}}},"currency":{_quoted(self.currency)},'
            f'"executions":{self.executions:d},{late}{measured}{missed}{periods}"steps":[{_steps_text(self.steps)}],"terms":{self.terms.text},'
            f'"unused":{"true" if self.unused else "false"}}}'
        )

    @property
    def list_amount(self) -> Decimal:
        """The amount before surcharges and discounts."""
        return self.amount if self.charged is not None else self.step("list").result

    def step(self, name: str) -> Step:
        """Return the step named `name`. Raises KeyError if there is none."""
        for item in self.steps:
            if item.name == name:
                return item
        raise KeyError(name)

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "book_version": self.book_version,
            "book_digest": self.book_digest,
            "counts": self.counts.to_json(),
            "executions": self.executions,
            "terms": self.terms.to_json(),
            "unused": self.unused,
            "steps": [item.to_json() for item in self.steps],
            "amount": decimal_text(self.amount),
            "currency": self.currency,
        }
        if self.missed:
            document["missed"] = True
        if self.measured is not None:
            document["measured"] = [item.to_json() for item in self.measured]
        if self.periods is not None:
            document["periods"] = dict(sorted(self.periods.items()))
        if self.charged is not None:
            document["charged"] = decimal_text(self.charged)
        if self.late:
            document["late"] = True
        return document

    @staticmethod
    def from_json(document: dict[str, Any]) -> Rating:
        return Rating(
            book_version=document["book_version"],
            book_digest=document["book_digest"],
            counts=Counts.from_json(document["counts"]),
            executions=document["executions"],
            terms=Terms.from_json(document["terms"]),
            unused=document["unused"],
            steps=tuple(Step.from_json(item) for item in document["steps"]),
            amount=Decimal(document["amount"]),
            currency=document["currency"],
            missed=bool(document.get("missed", False)),
            measured=measured_of(document),
            periods=periods_of(document),
            charged=charged_of(document),
            late=bool(document.get("late", False)),
        )


def charged_of(document: dict[str, Any]) -> Decimal | None:
    """Return the total of a contract's lines from a rating document; None unless the document rates a contract minimum."""
    found = document.get("charged")
    return None if found is None else Decimal(found)


def measured_of(document: dict[str, Any]) -> tuple[Counts, ...] | None:
    """Return the measured counts from a rating document; None if the document has no measured counts."""
    found = document.get("measured")
    return None if found is None else tuple(Counts.from_json(item) for item in found)


def periods_of(document: dict[str, Any]) -> dict[str, int] | None:
    """Return the number of executions by tariff period from a rating document; None if the document has no periods."""
    found = document.get("periods")
    return None if found is None else {name: int(count) for name, count in found.items()}
