"""The one rating function: a pipeline of small steps, each kept with its input, its factor, its result and its rule.

Every step is linear in the number of executions, so the parts of a contract always sum to the whole, to the last digit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from apps.pricing.rating.book import NO_COMMITMENT, PriceBookDocument, PriceClass
from apps.pricing.rating.decimals import AMOUNT_PLACES, CONTEXT, FACTOR_PLACES, TERA, decimal_text, multiply
from apps.pricing.rating.errors import NotPriced, RatingError

MOST_EXECUTIONS = 10**18
MOST_COUNT = 10**21

TIMES = "times"
PER_TERA = "times-per-tera"
LARGER = "larger"


@dataclass(frozen=True)
class Counts:
    """What one execution takes, from the compiled program: operations, and the cycles it keeps the device to itself
    (the program's initiation interval)."""

    operations: int
    cycles: int

    def to_json(self) -> dict[str, int]:
        return {"operations": self.operations, "cycles": self.cycles}

    @staticmethod
    def from_json(document: dict[str, Any]) -> Counts:
        return Counts(operations=int(document["operations"]), cycles=int(document["cycles"]))


@dataclass(frozen=True)
class Terms:
    """What was agreed: where, how precise, which class, which commitment.

    `instant` binds the tariff (the start of the contracted window); a class that is off-peak only needs it.
    `discounts` are further factors (name -> factor <= 1) that compete with the class's own discount.
    """

    processor_class: str
    precision: str
    klass: str
    commitment: str = NO_COMMITMENT
    instant: datetime | None = None
    discounts: dict[str, Decimal] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "processor_class": self.processor_class,
            "precision": self.precision,
            "klass": self.klass,
            "commitment": self.commitment,
            "instant": None if self.instant is None else self.instant.astimezone(UTC).isoformat(),
            "discounts": {name: decimal_text(factor) for name, factor in sorted(self.discounts.items())},
        }

    @staticmethod
    def from_json(document: dict[str, Any]) -> Terms:
        return Terms(
            processor_class=document["processor_class"],
            precision=document["precision"],
            klass=document["klass"],
            commitment=document["commitment"],
            instant=None if document["instant"] is None else datetime.fromisoformat(document["instant"]),
            discounts={name: Decimal(factor) for name, factor in document["discounts"].items()},
        )


@dataclass(frozen=True)
class Step:
    """One step of a price. `operation` says how `input` and `factor` make `result`:
    `times`, `times-per-tera` (divided by 10^12) or `larger` (of the two)."""

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


@dataclass(frozen=True)
class Rating:
    """A price and why: everything that went in, every step, and the exact amount."""

    book_version: int
    book_digest: str
    counts: Counts
    executions: int
    terms: Terms
    unused: bool
    steps: tuple[Step, ...]
    amount: Decimal
    currency: str

    @property
    def billed_operations(self) -> int:
        """The operations that the price was multiplied with."""
        return int(self.step("billed").result)

    @property
    def counted_operations(self) -> int:
        """The operations that the program counts, all executions together."""
        return self.counts.operations * self.executions

    def step(self, name: str) -> Step:
        """The step by name. Raises KeyError."""
        for item in self.steps:
            if item.name == name:
                return item
        raise KeyError(name)

    def to_json(self) -> dict[str, Any]:
        return {
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
        )


def rate(*, book: PriceBookDocument, counts: Counts, executions: int, terms: Terms, unused: bool = False) -> Rating:
    """Price `executions` executions of a program (G11, G12, T1).

    With `unused` the executions were reserved and not run: the class's share for unused work applies to the list price
    instead of surcharge and discounts. Raises NotPriced when the book lacks something, RatingError for counts, terms or
    instants that make no sense. The result is exact: at most 40 places, never rounded.
    """
    _check(counts, executions, terms)
    price_class = book.price_class(terms.klass)
    if price_class.off_peak_only:
        _check_off_peak(book, terms)
    steps = _operation_steps(book, counts, executions, terms)
    list_step = _list_step(book, steps[-1].result, terms)
    steps.append(list_step)
    if list_step.result == 0:
        raise NotPriced("the program counts no operation and the book asks for no minimum, so there is nothing to bill")
    if unused:
        steps.append(_unused_step(book, price_class, list_step))
    else:
        steps += _factor_steps(book, price_class, list_step, terms)
    amount = steps[-1].result
    if -int(amount.as_tuple().exponent) > AMOUNT_PLACES:
        raise RatingError(f"The amount {amount} has more than {AMOUNT_PLACES} places.")
    return Rating(
        book.version, book.digest, counts, executions, terms, unused, tuple(steps), amount, book.currency.code
    )


def _check(counts: Counts, executions: int, terms: Terms) -> None:
    if not 1 <= executions <= MOST_EXECUTIONS:
        raise RatingError(f"{executions:,} executions cannot be priced; ask for 1 to {MOST_EXECUTIONS:,}.")
    if not (0 <= counts.operations <= MOST_COUNT and 0 <= counts.cycles <= MOST_COUNT):
        raise RatingError(f"Counts of {counts.operations:,} operations and {counts.cycles:,} cycles are out of range.")
    for name, factor in terms.discounts.items():
        if not 0 <= factor <= 1 or -int(factor.as_tuple().exponent) > FACTOR_PLACES:
            raise RatingError(f"The discount {name} of {factor} is not a factor from 0 to 1 with at most 4 places.")


def _check_off_peak(book: PriceBookDocument, terms: Terms) -> None:
    if terms.instant is None:
        raise NotPriced(f"class {terms.klass!r} needs the instant at which its window starts")
    if terms.instant.tzinfo is None:
        raise RatingError("An instant without a time zone cannot be priced; give it an offset such as +00:00.")
    if not book.tariff.is_off_peak(terms.instant):
        local = terms.instant.astimezone(book.tariff.tzinfo)
        raise NotPriced(
            f"{local:%Y-%m-%d %H:%M} in {book.tariff.zone} is not an off-peak hour; start the window in an off-peak "
            "hour or take another class"
        )


def _operation_steps(book: PriceBookDocument, counts: Counts, executions: int, terms: Terms) -> list[Step]:
    minimum = book.minimum(terms.processor_class)
    counted = Step(
        "counted", "Counted operations", TIMES, Decimal(counts.operations), Decimal(executions),
        Decimal(counts.operations * executions), "operations",
        f"{counts.operations:,} operations in one execution of the compiled program x {executions:,} executions.",
    )  # fmt: skip
    total_cycles = counts.cycles * executions
    least = Step(
        "minimum", "Minimum operations", TIMES, Decimal(total_cycles), Decimal(minimum),
        Decimal(total_cycles * minimum), "operations",
        f"{counts.cycles:,} cycles x {executions:,} executions; class {terms.processor_class} asks for at least "
        f"{minimum:,} operations per cycle, since a device that waits for data is taken all the same.",
    )  # fmt: skip
    billed = Step(
        "billed", "Billed operations", LARGER, counted.result, least.result, max(counted.result, least.result),
        "operations", "The larger of the counted operations and the minimum.",
    )  # fmt: skip
    return [counted, least, billed]


def _list_step(book: PriceBookDocument, billed: Decimal, terms: Terms) -> Step:
    price = book.unit_price(terms.processor_class, terms.precision)
    return Step(
        "list", "List price", PER_TERA, billed, price, CONTEXT.scaleb(multiply(billed, price), -TERA),
        book.currency.code,
        f"Price book {book.version}: {decimal_text(price)} {book.currency.code} per tera-operation (10^12) in "
        f"{terms.precision} on {terms.processor_class}.",
    )  # fmt: skip


def _times(name: str, title: str, value: Decimal, factor: Decimal, unit: str, rule: str) -> Step:
    return Step(name, title, TIMES, value, factor, multiply(value, factor), unit, rule)


def _factor_steps(book: PriceBookDocument, price_class: PriceClass, listed: Step, terms: Terms) -> list[Step]:
    unit = book.currency.code
    surcharge = _times(
        "surcharge", "Surcharge", listed.result, price_class.surcharge, unit,
        f"Class {price_class.name} costs {price_class.surcharge} of the list price."
        if price_class.surcharge != 1 else f"Class {price_class.name} has no surcharge.",
    )  # fmt: skip
    name, factor, rule = _largest_discount(book, price_class, terms)
    discount = _times("discount", f"Discount: {name}", surcharge.result, factor, unit, rule)
    commitment_factor = book.commitment(terms.commitment)
    commitment = _times(
        "commitment", "Commitment", discount.result, commitment_factor, unit,
        f"Commitment {terms.commitment}: factor {decimal_text(commitment_factor)}."
        if terms.commitment != NO_COMMITMENT else "No commitment.",
    )  # fmt: skip
    least = _times(
        "least", "Floor", listed.result, book.floor, unit,
        f"Nothing is sold below {decimal_text(book.floor)} of the list price.",
    )  # fmt: skip
    floor = Step(
        "amount", "Amount", LARGER, commitment.result, least.result, max(commitment.result, least.result), unit,
        "The larger of the price after discounts and the floor. Exact; rounded once, on the invoice's total.",
    )  # fmt: skip
    return [surcharge, discount, commitment, least, floor]


def _largest_discount(book: PriceBookDocument, price_class: PriceClass, terms: Terms) -> tuple[str, Decimal, str]:
    candidates = {price_class.name: price_class.discount, **terms.discounts}
    name, factor = min(candidates.items(), key=lambda item: (item[1], item[0]))
    if factor == 1:
        return "none", factor, "No discount applies."
    shown = ", ".join(f"{key} {decimal_text(value)}" for key, value in sorted(candidates.items()))
    rule = f"Of the discounts ({shown}) only the largest applies."
    if price_class.off_peak_only and terms.instant is not None:
        local = terms.instant.astimezone(book.tariff.tzinfo)
        rule += (
            f" The window starts at {local:%Y-%m-%d %H:%M} in {book.tariff.zone}, period "
            f"{book.tariff.period_at(terms.instant).name!r}; this binds the tariff."
        )
    return name, factor, rule


def _unused_step(book: PriceBookDocument, price_class: PriceClass, listed: Step) -> Step:
    rule = (
        f"Class {price_class.name} charges {decimal_text(price_class.unused)} of the list price for what was reserved "
        "and not used."
        if price_class.unused
        else f"Class {price_class.name} charges nothing for what was reserved and not used."
    )
    return _times("amount", "Unused", listed.result, price_class.unused, book.currency.code, rule)
