"""Computes the device time that request lines need on a pool, and checks that the pool can run their programs."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from apps.accounts.problems import Problem
from apps.compilation.options import keeps_state
from apps.fleet.models import Pool
from apps.fleet.selectors import host_measurement_latest
from apps.pricing.rating import NotPriced, PriceBookDocument, Schedule
from apps.sales.models import FormName
from apps.sales.request_lines import QuoteRequestLine
from apps.sales.snapshots import ProgramSnapshot
from apps.sales.volumes import PER_EXECUTION, Form
from apps.timetable.admission.streams import Stream
from apps.timetable.admission.streams import duration_of as streams_duration

HOST_PRECISION = "float32"


def duration_of(
    request_lines: Sequence[QuoteRequestLine], pool: Pool, book: PriceBookDocument, form: Form = PER_EXECUTION
) -> tuple[Fraction, Fraction]:
    """Return the worst-case device time and the setup time of each window, both in seconds.

    The setup time is part of the device time. Raises Problem if the device time is unknown.
    """
    only = request_lines[0]
    if form.name == FormName.QUOTA:
        return _duration_of_quota(only.snapshot, pool, book), Fraction(0)
    if form.name == FormName.INTERVAL and only.schedule is not None:
        return _duration_of_interval(only.snapshot, only.schedule, pool), Fraction(0)
    if not pool.is_host:
        total, setup = streams_duration([stream_of(request_line) for request_line in request_lines])
        return total * pool.slowdown, setup * pool.slowdown
    measured_total = Fraction(0)
    for request_line in request_lines:
        measured = host_measurement_latest(pool=pool, program_digest=request_line.snapshot.digest)
        if measured is None:
            raise Problem(
                409,
                "Not measured yet",
                f"{request_line.snapshot.model} has not been measured on {pool.name} yet. Measuring takes up to a minute. "
                "Try again in a minute, or choose another pool.",
                kind="not-measured",
            )
        measured_total += request_line.executions * measured.p95_seconds
    return measured_total, Fraction(0)


def stream_of(request_line: QuoteRequestLine) -> Stream:
    """Return the executions of a line as a stream, at the processor's nominal clock."""
    snapshot = request_line.snapshot
    return Stream(request_line.executions, snapshot.seconds, snapshot.first_seconds, snapshot.load_seconds)


def _duration_of_quota(snapshot: ProgramSnapshot, pool: Pool, book: PriceBookDocument) -> Fraction:
    try:
        minimum = book.minimum(pool.processor_class, snapshot.precision)
    except NotPriced as error:
        raise Problem(422, "Not priced", str(error), kind="not-priced") from error
    if pool.is_host or not minimum:
        raise Problem(
            422,
            "No quota here",
            f"The device time of a quota on {pool.name} is not known until the quota's programs are known. Choose a pool whose "
            "price has a minimum number of operations per cycle, or choose a contract that is priced per execution.",
            kind="form",
        )
    return Fraction(snapshot.operations, minimum * snapshot.clock_hz) * pool.slowdown


def _duration_of_interval(snapshot: ProgramSnapshot, schedule: Schedule, pool: Pool) -> Fraction:
    if pool.is_host:
        raise Problem(
            422,
            "Not available on a host",
            f"{pool.name} is measured, not proven; an interval is guaranteed on a processor only.",
            kind="form",
        )
    first, each = (snapshot.load_seconds + snapshot.first_seconds) * pool.slowdown, snapshot.seconds * pool.slowdown
    needed = first + schedule.each * each
    if needed > schedule.every:
        fitting = int((schedule.every - first) / each)
        raise Problem(
            422,
            "Does not fit the interval",
            f"{schedule.each:,} executions of {snapshot.model} take {float(needed) * 1000:.6g} ms, but the interval is "
            f"{float(schedule.every) * 1000:.6g} ms long; at most {max(fitting, 0):,} fit.",
            kind="form",
        )
    return schedule.every * schedule.intervals


def _check_runs_on_host(snapshot: ProgramSnapshot, pool: Pool) -> None:
    if snapshot.precision != HOST_PRECISION:
        raise Problem(
            422,
            "Another precision",
            f"Pool {pool.slug} runs models in {HOST_PRECISION} only, but {snapshot.model} is compiled in {snapshot.precision}. "
            f"Choose a pool of {snapshot.target}, or use the program in {HOST_PRECISION}.",
            kind="precision-not-on-host",
        )
    if keeps_state(snapshot.options):
        raise Problem(
            422,
            "States on a host",
            f"Pool {pool.slug} runs the model itself, and {snapshot.model} was compiled to keep its states on the processor. "
            f"Choose a pool of {snapshot.target}, or compile without states and context.",
            kind="states-not-on-host",
        )


def pool_check(snapshot: ProgramSnapshot, pool: Pool) -> None:
    """Raise Problem if the pool cannot run the program."""
    if snapshot.is_quota:
        return
    if pool.is_host:
        _check_runs_on_host(snapshot, pool)
        return
    processor = pool.processor
    if processor is not None and processor.name == snapshot.target and processor.digest != snapshot.target_digest:
        raise Problem(
            422,
            "An earlier description of the processor",
            f"{snapshot.model} was compiled for an earlier description of {snapshot.target} ({snapshot.target_digest[:12]}); "
            f"pool {pool.slug} has a new one ({processor.digest[:12]}). Compile {snapshot.model} for {snapshot.target} again.",
            kind="processor-described-anew",
        )
    if processor is None or (processor.name, processor.digest) != (snapshot.target, snapshot.target_digest):
        raise Problem(
            422,
            "Another processor",
            f"{snapshot.model} was compiled for {snapshot.target}; pool {pool.slug} runs {pool.target}. Choose a pool of "
            f"{snapshot.target}, or compile for {pool.target}.",
            kind="wrong-processor",
        )
