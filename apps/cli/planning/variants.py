"""The variants of a task: every model in every precision on every pool."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from apps.cli.planning import evaluations
from apps.cli.planning.evaluations import Known
from apps.cli.planning.programs import Facts, Model, compiled, processors_of
from apps.cli.planning.task import Stated
from apps.fleet.document import Pool
from apps.planner.solver import Evaluated, Variant
from apps.pricing.rating import Counts, NotPriced, Terms, rate, tariff_bound
from compiler.targets import Target

FULL_POWER = 100
FLOAT32 = "float32"
FIRST = "lpu"  # its counts price a host pool if the fleet has no processor


class Made(NamedTuple):
    """A variant with its model and its program. `program` is None if there is no program."""

    variant: Variant
    model: Model
    program: Facts | None


Measured = Callable[[str, str], Fraction | None]  # (pool, SHA-256 of a model) -> measured seconds of an item


def variants_of(task: Stated, models: list[Model], known: Known, measured: Measured) -> dict[str, Made]:
    """Map each variant's key to the variant, ordered by pool name. Raises FileFault."""
    machines = processors_of(task.fleet)
    if known.data is not None:
        for model in models:
            evaluations.calibrate(known.data, model)
    found: dict[str, Made] = {}
    for slug, pool in sorted(task.fleet.pools.items()):
        for model in models:
            for precision in [FLOAT32] if pool.is_host else model.precisions:
                made = _made(task, slug, pool, model, precision, machines, known, measured)
                found[made.variant.key] = made
    return found


def _made(
    task: Stated,
    slug: str,
    pool: Pool,
    model: Model,
    precision: str,
    machines: dict[str, Target],
    known: Known,
    measured: Measured,
) -> Made:
    program = _counted(model, machines) if pool.is_host else compiled(model, machines[pool.processor], precision)
    narrow = precision != FLOAT32
    common: dict[str, Any] = {
        "key": f"{model.name}@{slug}" + (f":{precision}" if narrow else ""),
        "model": model.name + (f" in {precision}" if narrow else ""),
        "pool": slug,
        "least": task.book.contract_minimum,
    }
    if isinstance(program, str):
        return Made(Variant(**common, price=_unpriced, missing=(program,)), model, None)
    answers = _evaluated(model, program, known, precision)
    price = _pricer(task, pool, program)
    common["program"] = program.digest
    if answers is not None:
        common |= evaluations.together(known, model, answers)
    if not pool.is_host:
        slower = Fraction(FULL_POWER, pool.power_percent)
        counts = program.latency, program.interval, program.load
        latency, interval, load = (Fraction(cycles, program.clock_hz) * slower for cycles in counts)
        certainty = "exact" if program.exact else "bound"
        variant = Variant(
            **common, price=price, evaluated=answers, latency=latency, interval=interval, load=load, certainty=certainty
        )
        return Made(variant, model, program)
    seconds = measured(slug, model.sha256)
    missing = (
        f"{model.name} has no measurement on {slug}: name what takt measure wrote there under [[places.measurements]].",
    )
    variant = Variant(
        **common,
        price=price,
        evaluated=answers,
        latency=seconds,
        interval=seconds,
        certainty="measured",
        missing=() if seconds is not None else missing,
    )
    return Made(variant, model, program)


def _counted(model: Model, machines: dict[str, Target]) -> Facts | str:
    from compiler import targets

    tried = [compiled(model, machine, FLOAT32) for machine in (machines or {FIRST: targets.load(FIRST)}).values()]
    return next((one for one in tried if isinstance(one, Facts)), tried[0])


def _evaluated(model: Model, program: Facts, known: Known, precision: str) -> Evaluated | None:
    if known.data is not None:
        return evaluations.evaluated(known.data, model, program)
    return known.documents.get(model.name) if precision == FLOAT32 else None


def _pricer(task: Stated, pool: Pool, program: Facts) -> Callable[[int], Decimal]:
    instant = tariff_bound(task.book, task.klass, task.window.start, task.window.end)
    counts = Counts(operations=program.operations, cycles=program.interval)
    terms = Terms(processor_class=pool.klass, precision=program.precision, klass=task.klass, instant=instant)

    def price(executions: int) -> Decimal:
        try:
            return rate(book=task.book, counts=counts, executions=executions, terms=terms).amount
        except NotPriced as error:
            raise ValueError(f"The program has no price ({error.missing}); add one to the price book.") from None

    return price


def _unpriced(_executions: int) -> Decimal:
    raise ValueError("The program has no price until it is compiled.")
