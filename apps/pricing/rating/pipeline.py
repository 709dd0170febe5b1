"""The rating function, which computes a price in small recorded steps.

Every step is linear in the number of executions, so the prices of a contract's parts add up exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from apps.pricing.rating.book import NO_COMMITMENT, PriceBookDocument, PriceClass
from apps.pricing.rating.checks import check_amount, check_inputs, check_late, check_off_peak
from apps.pricing.rating.decimals import CONTEXT, TERA, decimal_text, multiply
from apps.pricing.rating.errors import NotPriced
from apps.pricing.rating.tariff import Period
from apps.pricing.rating.terms import LARGER, PER_TERA, PLUS, SMALLER, TIMES, Counts, Rating, Step, Terms, step_of


def rate(
    *,
    book: PriceBookDocument,
    counts: Counts,
    executions: int,
    terms: Terms,
    unused: bool = False,
    missed: bool = False,
    late: bool = False,
    measured: Sequence[Counts] | None = None,
    periods: Mapping[str, int] | None = None,
) -> Rating:
    """Price `executions` executions of a program.

    `unused`: the executions were reserved but not run. `late` (only with `unused`): the amount is the additional charge
    for a late release. `missed`: the executions were guaranteed but not finished in time, and the amount is the credit.

    `measured`: the total counts of each lease, for terms that charge measured counts. `periods`: the number of
    executions by tariff period, for classes whose price depends on the hour.

    Raises NotPriced if the book lacks a price, and RatingError if counts, terms or instants are invalid. The result is
    exact.
    """
    check_inputs(book, counts, executions, terms, unused=unused, missed=missed, measured=measured, periods=periods)
    _check_class(book, terms, late=late, unused=unused)
    by_lease = None if measured is None else tuple(sorted(measured, key=lambda item: (item.operations, item.cycles)))
    steps = _listed_steps(book, counts, executions, terms, by_lease)
    if unused or missed:
        steps += _idle_steps(book, steps[-1], terms, late=late, missed=missed)
    else:
        steps += _run_steps(book, steps[-1], executions, terms, periods)
    amount = steps[-1].result
    check_amount(amount, may_be_nothing=unused or missed)
    return Rating(
        book.version,
        book.digest,
        counts,
        executions,
        terms,
        unused,
        tuple(steps),
        amount,
        book.currency.code,
        missed=missed,
        measured=by_lease,
        periods=None if periods is None else dict(sorted(periods.items())),
        late=late,
    )


def _check_class(book: PriceBookDocument, terms: Terms, *, late: bool, unused: bool) -> None:
    price_class = book.price_class(terms.klass)
    check_late(book, price_class, late=late, unused=unused)
    if price_class.off_peak_only:
        check_off_peak(book, terms)


def _listed_steps(
    book: PriceBookDocument, counts: Counts, executions: int, terms: Terms, measured: tuple[Counts, ...] | None
) -> list[Step]:
    """The steps up to the list price, which is the last one."""
    steps = _contracted_steps(terms)
    steps += _operation_steps(book, counts, executions, terms, measured)
    listed = _list_step(book, steps[-1].result, terms)
    if listed.result == 0:
        raise NotPriced("the program counts no operation and the book asks for no minimum, so there is nothing to bill")
    return [*steps, listed]


def _run_steps(
    book: PriceBookDocument, listed: Step, executions: int, terms: Terms, periods: Mapping[str, int] | None
) -> list[Step]:
    if periods is None:
        return _use_steps(book, listed, terms, bound_period(book, terms), "")
    return _period_steps(book, listed, executions, terms, periods)


def _idle_steps(book: PriceBookDocument, listed: Step, terms: Terms, *, late: bool, missed: bool) -> list[Step]:
    """The steps from the list price to the amount of work that did not run: released late, missed, or else unused."""
    price_class = book.price_class(terms.klass)
    if late:
        return _late_steps(book, price_class, listed, terms)
    return _missed_steps(book, listed, terms) if missed else _unused_steps(book, price_class, listed, terms)


def bound_period(book: PriceBookDocument, terms: Terms) -> Period | None:
    """Return the tariff period agreed in the terms. None if no class in the terms has a price that depends on the hour."""
    classes = [book.price_class(name) for name in (terms.klass, terms.served) if name]
    if not any(item.time_of_use for item in classes) or terms.instant is None:
        return None
    return book.tariff.period_at(terms.instant)


def _contracted_steps(terms: Terms) -> list[Step]:
    schedule = terms.schedule
    if schedule is None:
        return []
    rule = f"{schedule.each:,} executions in each of {schedule.intervals:,} intervals of {schedule.every} s."
    return [
        step_of("contracted", "Contracted executions", TIMES, schedule.each, schedule.intervals, "executions", rule)
    ]


def _operation_steps(
    book: PriceBookDocument, counts: Counts, executions: int, terms: Terms, measured: tuple[Counts, ...] | None
) -> list[Step]:
    minimum = book.minimum(terms.processor_class, terms.precision)
    counted = step_of(
        "counted",
        "Counted operations",
        TIMES,
        counts.operations,
        executions,
        "operations",
        f"{counts.operations:,} operations in one execution of the compiled program x {executions:,} executions.",
    )
    least = step_of(
        "minimum",
        "Minimum operations",
        TIMES,
        counts.cycles * executions,
        minimum,
        "operations",
        f"{counts.cycles:,} cycles x {executions:,} executions; class {terms.processor_class} asks for at least "
        f"{minimum:,} operations per cycle, since a device that waits for data is taken all the same.",
    )
    rule = "The larger of the counted operations and the minimum."
    if measured is None:
        return [
            counted,
            least,
            step_of("billed", "Billed operations", LARGER, counted.result, least.result, "operations", rule),
        ]
    worst = step_of("worst", "Worst case", LARGER, counted.result, least.result, "operations", rule)
    total = sum(max(item.operations, item.cycles * minimum) for item in measured)
    billed = step_of(
        "billed",
        "Billed operations",
        SMALLER,
        worst.result,
        total,
        "operations",
        f"What was measured: {sum(item.operations for item in measured):,} operations and "
        f"{sum(item.cycles for item in measured):,} cycles, of every lease ({len(measured):,}) the larger of its operations "
        "and its minimum; never more than the worst case.",
    )
    return [counted, least, worst, billed]


def _list_step(book: PriceBookDocument, billed: Decimal, terms: Terms) -> Step:
    price = book.unit_price(terms.processor_class, terms.precision)
    return step_of(
        "list",
        "List price",
        PER_TERA,
        billed,
        price,
        book.currency.code,
        f"Price book {book.version}: {decimal_text(price)} {book.currency.code} per tera-operation (10^12) in "
        f"{terms.precision} on {terms.processor_class}.",
    )


def _use_steps(
    book: PriceBookDocument, listed: Step, terms: Terms, period: Period | None, mark: str, last: str = "amount"
) -> list[Step]:
    bought = book.price_class(terms.klass)
    if not terms.served:
        return _class_steps(book, bought, listed, terms, period, mark, last)
    steps = _class_steps(book, bought, listed, terms, period, mark, "bought")
    served = book.price_class(terms.served)
    steps += _class_steps(book, served, listed, terms, period, f"{mark}:served", "price")
    rule = (
        f"Class {bought.name} was bought, class {served.name} was served: the smaller of the two prices is charged. Exact; "
        "rounded once, on the invoice's total."
    )
    price, unit = step_named(steps, f"bought{mark}").result, book.currency.code
    return [*steps, step_of(f"{last}{mark}", "Amount", SMALLER, price, steps[-1].result, unit, rule)]


def _class_steps(
    book: PriceBookDocument,
    price_class: PriceClass,
    listed: Step,
    terms: Terms,
    period: Period | None,
    mark: str,
    last: str,
) -> list[Step]:
    unit = book.currency.code
    steps = [_surcharge_step(price_class, listed, mark, unit)]
    hours = period if price_class.time_of_use else None
    if hours is not None and hours.factor > 1:
        rule = (
            f"Hours of the period {hours.name!r} in {book.tariff.zone} cost {decimal_text(hours.factor)} of the price."
        )
        steps.append(step_of(f"hours{mark}", "Hours", TIMES, steps[-1].result, hours.factor, unit, rule))
    name, factor, rule = _largest_discount(book, price_class, terms, hours)
    steps.append(step_of(f"discount{mark}", f"Discount: {name}", TIMES, steps[-1].result, factor, unit, rule))
    steps.append(_commitment_step(book, terms, steps[-1].result, mark))
    rule = f"Nothing is sold below {decimal_text(book.floor)} of the list price."
    least = step_of(f"least{mark}", "Floor", TIMES, listed.result, book.floor, unit, rule)
    rule = "The larger of the price after discounts and the floor. Exact; rounded once, on the invoice's total."
    return [*steps, least, step_of(f"{last}{mark}", "Amount", LARGER, steps[-1].result, least.result, unit, rule)]


def _surcharge_step(price_class: PriceClass, listed: Step, mark: str, unit: str) -> Step:
    rule = (
        f"Class {price_class.name} costs {price_class.surcharge} of the list price."
        if price_class.surcharge != 1
        else f"Class {price_class.name} has no surcharge."
    )
    return step_of(f"surcharge{mark}", "Surcharge", TIMES, listed.result, price_class.surcharge, unit, rule)


def _commitment_step(book: PriceBookDocument, terms: Terms, discounted: Decimal, mark: str) -> Step:
    factor = book.commitment(terms.commitment) if terms.commitment_factor is None else terms.commitment_factor
    rule = (
        f"Commitment {terms.commitment}: factor {decimal_text(factor)}."
        if terms.commitment != NO_COMMITMENT
        else "No commitment."
    )
    return step_of(f"commitment{mark}", "Commitment", TIMES, discounted, factor, book.currency.code, rule)


def _largest_discount(
    book: PriceBookDocument, price_class: PriceClass, terms: Terms, hours: Period | None
) -> tuple[str, Decimal, str]:
    candidates = {price_class.name: price_class.discount, **terms.discounts}
    if hours is not None and hours.factor < 1:
        candidates[f"hours {hours.name}"] = hours.factor
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


def _period_steps(
    book: PriceBookDocument, listed: Step, executions: int, terms: Terms, periods: Mapping[str, int]
) -> list[Step]:
    unit, bound = book.currency.code, bound_period(book, terms)
    assert bound is not None  # check_inputs refuses periods where nothing follows the hours
    once = CONTEXT.scaleb(
        multiply(listed.factor, CONTEXT.divide(listed.input, Decimal(executions))), -TERA
    )  # whole operations of one execution
    steps: list[Step] = []
    parts: list[Step] = []
    for name, count in sorted(periods.items()):
        ran = book.tariff.period(name)
        period = min(bound, ran, key=lambda item: item.factor)
        mark = f":{name}"
        head = step_of(
            f"list{mark}",
            f"List price, {name}",
            TIMES,
            once,
            count,
            unit,
            f"{count:,} executions had their first cycle in an hour of the period {name!r}; the contract is bound to "
            f"{bound.name!r}, and the cheaper of the two holds.",
        )
        steps += [head, *_use_steps(book, head, terms, period, mark)]
        parts.append(steps[-1])
    return [*steps, *_summed(parts, unit)]


def _summed(parts: list[Step], unit: str) -> list[Step]:
    steps: list[Step] = []
    total = Decimal(0)
    for number, part in enumerate(parts, 1):
        name = "amount" if number == len(parts) else f"sum:{number}"
        steps.append(step_of(name, "Amount", PLUS, total, part.result, unit, "The sum over the periods of the tariff."))
        total = steps[-1].result
    return steps


def _unused_steps(book: PriceBookDocument, price_class: PriceClass, listed: Step, terms: Terms) -> list[Step]:
    rule = (
        f"Class {price_class.name} charges {decimal_text(price_class.unused)} of the list price for what was reserved "
        "and not used."
        if price_class.unused
        else f"Class {price_class.name} charges nothing for what was reserved and not used."
    )
    unit = book.currency.code
    share = step_of("amount", "Unused", TIMES, listed.result, price_class.unused, unit, rule)
    bought = _use_steps(book, listed, terms, bound_period(book, terms), "", "bought")
    if share.result <= bought[-1].result:
        return [share]
    first = step_of("unused", "Unused", TIMES, listed.result, price_class.unused, unit, rule)
    rule = "What was not used never costs more than its use would have."
    return [first, *bought, step_of("amount", "Amount", SMALLER, first.result, bought[-1].result, unit, rule)]


def _late_steps(book: PriceBookDocument, price_class: PriceClass, listed: Step, terms: Terms) -> list[Step]:
    late, unit = price_class.late, book.currency.code
    assert late is not None  # check_late refuses a class without such a term
    steps = _use_steps(book, listed, terms, bound_period(book, terms), "", "bought")
    rule = (
        f"Class {price_class.name} charges {decimal_text(late.share)} of its price for what is not used and was reserved for "
        f"less than {late.notice_minutes:,} minutes after the hour in which it is released."
    )
    if not price_class.unused:
        return [*steps, step_of("amount", "Late cancellation", TIMES, steps[-1].result, late.share, unit, rule)]
    steps.append(step_of("late", "Late cancellation", TIMES, steps[-1].result, late.share, unit, rule))
    unused = _unused_amount(price_class, listed, steps[-2].result, unit)
    larger = step_of(
        "larger",
        "The larger",
        LARGER,
        steps[-1].result,
        unused.result,
        unit,
        "Unused work costs the larger of both, not their sum.",
    )
    rule = "Less what is charged for it as unused."
    rest = step_of("amount", "Late cancellation", PLUS, larger.result, _negated(unused.result), unit, rule)
    return [*steps, unused, larger, rest]


def _unused_amount(price_class: PriceClass, listed: Step, bought: Decimal, unit: str) -> Step:
    share = multiply(listed.result, price_class.unused)
    rule = (
        f"Unused work costs {decimal_text(price_class.unused)} of the list price, never more than its use would have."
    )
    return step_of("unused", "Charged as unused", SMALLER, share, bought, unit, rule)


def _negated(value: Decimal) -> Decimal:
    return value.copy_negate() if value else Decimal(0)


def _missed_steps(book: PriceBookDocument, listed: Step, terms: Terms) -> list[Step]:
    steps = _use_steps(book, listed, terms, bound_period(book, terms), "", "bought")
    rule = f"Of the price of guaranteed work that was missed, {decimal_text(book.missed_guarantee)} is credited."
    unit = book.currency.code
    return [*steps, step_of("amount", "Credit", TIMES, steps[-1].result, book.missed_guarantee, unit, rule)]


def step_named(steps: Sequence[Step], name: str) -> Step:
    """Return the step named `name`. Raises KeyError if there is no such step."""
    for item in steps:
        if item.name == name:
            return item
    raise KeyError(name)
