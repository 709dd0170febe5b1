"""What an ask takes of a pool: whether its programs run there, and the device time that they need at most."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from apps.accounts.problems import Problem
from apps.fleet.models import Pool
from apps.fleet.selectors import host_measurement_latest
from apps.pricing.rating import NotPriced, PriceBookDocument, Schedule
from apps.sales.asks import Ask
from apps.sales.facts import ProgramFacts
from apps.sales.models import FormName
from apps.sales.volumes import PER_EXECUTION, Form
from apps.timetable.admission.streams import Stream
from apps.timetable.admission.streams import duration_of as streams_duration

HOST_PRECISION = "float32"


def duration_of(
    asks: Sequence[Ask], pool: Pool, book: PriceBookDocument, form: Form = PER_EXECUTION
) -> tuple[Fraction, Fraction]:
    """Seconds of device time for the worst case, and the part of them that comes once in each window: loading every
    program, and what its first result takes longer.

    On a host pool it is the measured 95th percentile of one execution, times the executions. A quota takes what its
    operations take at most: none is billed for less than the book's fewest operations per cycle. A granular interval
    takes all of its time. What a quota will run is not known, so it reserves no loading. Raises Problem where that is not known.
    """
    only = asks[0]
    if form.name == FormName.QUOTA:
        return _duration_of_quota(only.facts, pool, book), Fraction(0)
    if form.name == FormName.INTERVAL and only.schedule is not None:
        return _duration_of_interval(only.facts, only.schedule, pool), Fraction(0)
    if not pool.is_host:
        total, setup = streams_duration([stream_of(ask) for ask in asks])
        return total * pool.slowdown, setup * pool.slowdown
    measured_total = Fraction(0)
    for ask in asks:
        measured = host_measurement_latest(pool=pool, program_digest=ask.facts.digest)
        if measured is None:
            raise Problem(
                409,
                "Not measured yet",
                f"{ask.facts.model} has not been measured on {pool.name} yet. This happens by itself within a minute; "
                "try again then, or choose another pool.",
                kind="not-measured",
            )
        measured_total += ask.executions * measured.p95_seconds
    return measured_total, Fraction(0)


def stream_of(ask: Ask) -> Stream:
    """An ask's executions as they run one after another at the processor's own clock."""
    facts = ask.facts
    return Stream(ask.executions, facts.seconds, facts.first_seconds, facts.load_seconds)


def _duration_of_quota(facts: ProgramFacts, pool: Pool, book: PriceBookDocument) -> Fraction:
    try:
        minimum = book.minimum(pool.processor_class, facts.precision)
    except NotPriced as error:
        raise Problem(422, "Not priced", str(error), kind="not-priced") from error
    if pool.is_host or not minimum:
        raise Problem(
            422,
            "No quota here",
            f"What a quota takes of {pool.name} is not known before its programs are; take a quota on a pool whose price has "
            "a fewest number of operations per cycle, or a contract per execution.",
            kind="form",
        )
    return Fraction(facts.operations, minimum * facts.clock_hz) * pool.slowdown


def _duration_of_interval(facts: ProgramFacts, schedule: Schedule, pool: Pool) -> Fraction:
    if pool.is_host:
        raise Problem(
            422,
            "Not on a host",
            f"{pool.name} is measured, not proven; an interval is guaranteed on a processor only.",
            kind="form",
        )
    first, each = (facts.load_seconds + facts.first_seconds) * pool.slowdown, facts.seconds * pool.slowdown
    needed = first + schedule.each * each
    if needed > schedule.every:
        fitting = int((schedule.every - first) / each)
        raise Problem(
            422,
            "Does not fit the interval",
            f"{schedule.each:,} executions of {facts.model} take {float(needed) * 1000:.6g} ms, the interval has "
            f"{float(schedule.every) * 1000:.6g} ms; at most {max(fitting, 0):,} fit.",
            kind="form",
        )
    return schedule.every * schedule.intervals


def _check_runs_on_host(facts: ProgramFacts, pool: Pool) -> None:
    """A host runs the model file itself, in the numbers that it came with."""
    if facts.precision != HOST_PRECISION:
        raise Problem(
            422,
            "Another precision",
            f"Pool {pool.slug} runs {facts.model} as it came, in {HOST_PRECISION}, not in {facts.precision}. Choose a pool of "
            f"{facts.target}, or the program in {HOST_PRECISION}.",
            kind="precision-not-on-host",
        )


def pool_check(facts: ProgramFacts, pool: Pool) -> None:
    """Raises Problem unless the pool runs the program."""
    if facts.is_quota:
        return
    if pool.is_host:
        _check_runs_on_host(facts, pool)
        return
    processor = pool.processor
    if processor is not None and processor.name == facts.target and processor.digest != facts.target_digest:
        raise Problem(
            422,
            "An earlier description of the processor",
            f"{facts.model} was compiled for {facts.target} as it was described before ({facts.target_digest[:12]}); pool "
            f"{pool.slug} is described anew ({processor.digest[:12]}). Compile {facts.model} for {facts.target} again.",
            kind="processor-described-anew",
        )
    if processor is None or (processor.name, processor.digest) != (facts.target, facts.target_digest):
        raise Problem(
            422,
            "Another processor",
            f"{facts.model} was compiled for {facts.target}; pool {pool.slug} runs {pool.target}. Choose a pool of "
            f"{facts.target}, or compile for {pool.target}.",
            kind="wrong-processor",
        )
