"""Collects what could do a task: every candidate model on every pool, with its price and what is known of its time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

from apps.compilation.models import Precision, Program
from apps.compilation.selectors import load_seconds, programs_of_versions
from apps.fleet.models import Pool, PoolKind
from apps.fleet.selectors import host_measurement_latest, pools
from apps.planner.metrics import VOTING
from apps.planner.scores import bound_of
from apps.planner.solver import Answers, Evaluated, Variant
from apps.pricing.rating import Counts, PriceBookDocument, Terms, rate
from apps.registry.models import Evaluation, ModelVersion
from apps.registry.selectors import family_evaluations, family_of

NANOSECONDS = 10**9
SIX_PLACES = Decimal(1).scaleb(-6)


@dataclass(frozen=True)
class Deployment:
    """A model version on a pool: the program that would run there, and what is said of its time."""

    version: ModelVersion
    pool: Pool
    program: Program | None
    note: str = ""

    @property
    def title(self) -> str:
        """The version, and its precision where that is not the model's own."""
        narrow = self.program is not None and self.program.precision != Precision.FLOAT32
        return f"{self.version} in {self.program.precision}" if narrow and self.program else str(self.version)


@dataclass(frozen=True)
class VariantSet:
    """The variants for the solver, and what each key stands for."""

    variants: list[Variant]
    deployments: dict[str, Deployment]


@dataclass(frozen=True)
class CandidateModels:
    """Which models are candidates: `fits` says whether a program takes the items, `evaluation` what is known of a deployment."""

    versions: list[ModelVersion]
    fits: Callable[[Program], bool]
    evaluation: Callable[[Deployment, str], Evaluation | None]


def candidate_models_of_version(version: ModelVersion, dims: dict[str, int] | None) -> CandidateModels:
    """The alternatives of a version: what was evaluated on the same data, and takes and gives the same values.

    `dims` chooses among the lengths that the version was compiled for.
    """
    versions, evaluations = alternatives(version)
    wanted = signature_of(programs_of_versions([one.pk for one in versions]), version, dims)

    def evaluation(deployment: Deployment, precision: str) -> Evaluation | None:
        # What its owner states are the answers of the model as it came: nothing is promised of fewer bits.
        return evaluations.get(deployment.version.pk) if precision == Precision.FLOAT32 else None

    return CandidateModels(versions, lambda program: wanted is None or signature(program) == wanted, evaluation)


def variants_collect(*, choice: CandidateModels, klass: str, book: PriceBookDocument, instant: datetime) -> VariantSet:
    """Every candidate on every active pool in every precision that it has, priced by the tariff of an `instant`."""
    programs: dict[UUID, list[Program]] = defaultdict(list)
    for program in programs_of_versions([one.pk for one in choice.versions]):
        if choice.fits(program):
            programs[program.model_version_id].append(program)
    answers: dict[UUID, Evaluated] = {}
    variants: list[Variant] = []
    deployments: dict[str, Deployment] = {}
    for pool in pools():
        for one in choice.versions:
            for precision in precisions_of(one, pool, programs[one.pk]):
                deployment = deployment_of(one, pool, programs[one.pk], precision)
                evaluation = choice.evaluation(deployment, precision)
                if evaluation is not None and evaluation.pk not in answers:
                    answers[evaluation.pk] = evaluated_of(evaluation)
                key = f"{one.pk}@{pool.slug}" + ("" if precision == Precision.FLOAT32 else f":{precision}")
                deployments[key] = deployment
                evaluated = answers[evaluation.pk] if evaluation else None
                variant = _variant(key, deployment, evaluated, klass, book, instant, precision)
                variants.append(
                    variant if evaluation is None else replace(variant, **_combination_facts(deployment, evaluation))
                )
    return VariantSet(variants, deployments)


def _combination_facts(deployment: Deployment, evaluation: Evaluation) -> dict[str, Any]:
    """What a program needs to share with another one to work on the same items: what it takes, the items on which it was
    evaluated, and for a vote its classes."""
    program = deployment.program
    if program is None:
        return {}
    chosen_on = evaluation.items["choose"].get("dataset_digest", "")  # where the platform evaluated, the family says it
    votes = evaluation.metric.partition(" of ")[0] in VOTING
    return {
        "takes": (signature(program), chosen_on),
        "program": program.digest,
        "classes": classes_of(program, evaluation.confidence_output) if votes else None,
    }


def classes_of(program: Program, output: str) -> int | None:
    """How many classes the output scores; None where it has no single score for each class."""
    shape: list[int | str] = next((one["shape"] for one in program.outputs if one["name"] == output), [])
    sizes = [size for size in shape if size != 1]
    return sizes[0] if len(sizes) == 1 and isinstance(sizes[0], int) else None


def precisions_of(version: ModelVersion, pool: Pool, programs: list[Program]) -> list[str]:
    """float32, which a host runs alone, and every other precision that the version was compiled in for the pool."""
    target = pool.processor.name if pool.processor else None
    made = {p.precision for p in programs if p.model_version_id == version.pk and p.target == target}
    return [precision for precision in Precision.values if precision == Precision.FLOAT32 or precision in made]


Signature = tuple[tuple[str, str, tuple[int, ...]], ...]


def signature(program: Program) -> Signature:
    """The names, types and shapes of what a program takes."""
    return tuple(sorted((value["name"], value["dtype"], tuple(value["shape"])) for value in program.inputs))


def signature_of(programs: list[Program], version: ModelVersion, dims: dict[str, int] | None) -> Signature | None:
    """What one item is: the inputs of the version's program with these lengths (default: its smallest lengths).

    Lengths that were not compiled still say what one item is, so that no program of other lengths is taken for it.
    """
    own = [p for p in programs if p.model_version_id == version.pk and (dims is None or p.dims == dims)]
    if own or dims is None:
        return min((signature(program) for program in own), default=None)
    shapes = [(v["name"], v["dtype"], [dims.get(size, size) for size in v["shape"]]) for v in version.inputs]
    return tuple(sorted((name, dtype, tuple(shape)) for name, dtype, shape in shapes))


def alternatives(version: ModelVersion) -> tuple[list[ModelVersion], dict[UUID, Evaluation]]:
    """The versions that could do the same task, and their evaluations; the version alone when it was not evaluated."""
    family = family_of(version)
    evaluations = {e.model_version_id: e for e in family_evaluations(family.pk)} if family else {}
    return ([e.model_version for e in evaluations.values()] or [version]), evaluations


def missing_programs(
    *, version: ModelVersion, dims: dict[str, int] | None
) -> Iterator[tuple[ModelVersion, str, dict[str, int]]]:
    """(version, target, lengths) for each alternative that has no program yet for a processor on offer."""
    versions, _ = alternatives(version)
    programs = programs_of_versions([one.pk for one in versions])
    wanted = signature_of(programs, version, dims)
    if wanted is None and not version.symbolic_dims:
        wanted = tuple(sorted((v["name"], v["dtype"], tuple(v["shape"])) for v in version.inputs))
    for one in versions:
        lengths = lengths_for(one, wanted)
        for pool in pools():
            fitting = [program for program in programs if wanted is None or signature(program) == wanted]
            if pool.processor and lengths is not None and deployment_of(one, pool, fitting).program is None:
                yield one, pool.processor.name, lengths


def lengths_for(version: ModelVersion, wanted: Signature | None) -> dict[str, int] | None:
    """The open lengths that make a version take the wanted items; None when none do."""
    shapes = {name: (dtype, shape) for name, dtype, shape in wanted or ()}
    lengths: dict[str, int] = {}
    for value in version.inputs:
        dtype, shape = shapes.get(value["name"], ("", ()))
        if dtype != value["dtype"] or len(shape) != len(value["shape"]):
            return None
        for own, length in zip(value["shape"], shape, strict=True):
            if (lengths.setdefault(own, length) if isinstance(own, str) else own) != length:
                return None
    return lengths if len(shapes) == len(version.inputs) else None


def deployment_of(
    version: ModelVersion, pool: Pool, programs: list[Program], precision: str = Precision.FLOAT32
) -> Deployment:
    """The newest of these programs that is the version's in that precision and fits the pool."""
    fitting = [p for p in programs if p.model_version_id == version.pk and p.precision == precision]
    if pool.kind == PoolKind.HOST:
        # The model file itself runs there; its counts are those of the first target by name, always the same one.
        fitting.sort(key=lambda program: program.target)
        return Deployment(version, pool, fitting[0] if fitting else None)
    processor = pool.processor
    exact = [p for p in fitting if processor and (p.target, p.target_digest) == (processor.name, processor.digest)]
    return Deployment(version, pool, exact[0] if exact else None)


def _variant(
    key: str,
    deployment: Deployment,
    evaluated: Evaluated | None,
    klass: str,
    book: PriceBookDocument,
    instant: datetime,
    precision: str,
) -> Variant:
    program, pool = deployment.program, deployment.pool
    common: dict[str, Any] = {
        "key": key,
        "model": deployment.version.model.name + ("" if precision == Precision.FLOAT32 else f" in {precision}"),
        "pool": pool.slug,
        "evaluated": evaluated,
        "least": book.contract_minimum,
    }
    if program is None:
        target = pool.processor.name if pool.processor else "any processor"
        kind = "this kind of item" + ("" if precision == Precision.FLOAT32 else f" in {precision}")
        reason = f"{deployment.version} is not compiled for {target} and {kind} yet."
        return Variant(**common, price=_unpriced, missing=(reason,))
    price = pricer_of(program, pool, klass, book, instant)
    if pool.kind == PoolKind.HOST:
        measured = host_measurement_latest(pool=pool, program_digest=program.digest)
        if measured is None:
            reason = f"{deployment.version} has not been measured on {pool.slug} yet; that happens by itself within a minute."
            return Variant(**common, price=price, certainty="measured", missing=(reason,))
        seconds = Fraction(measured.p95_ns, NANOSECONDS)
        return Variant(**common, price=price, latency=seconds, interval=seconds, certainty="measured")
    return Variant(
        **common,
        price=price,
        latency=Fraction(program.latency_cycles, program.clock_hz) * pool.slowdown,
        interval=Fraction(program.interval_cycles, program.clock_hz) * pool.slowdown,
        load=load_seconds(program) * pool.slowdown,
        certainty="exact" if program.exact else "bound",
    )


def _unpriced(_executions: int) -> Decimal:
    raise ValueError("It has no price until it is compiled.")


def pricer_of(
    program: Program, pool: Pool, klass: str, book: PriceBookDocument, instant: datetime
) -> Callable[[int], Decimal]:
    """The exact price of n executions, by the same rating as every quote and invoice."""
    counts = Counts(operations=program.operations, cycles=program.interval_cycles)
    terms = Terms(processor_class=pool.processor_class, precision=program.precision, klass=klass, instant=instant)
    return lambda executions: rate(book=book, counts=counts, executions=executions, terms=terms).amount


def evaluated_of(evaluation: Evaluation) -> Evaluated:
    """The answers of both parts, as the solver takes them; confidences with the six deployments that dispatch compares."""
    parts = {
        name: Answers.of(part["labels"], part["predicted"], [_six(one) for one in part["confidence"]])
        for name, part in evaluation.items.items()
    }
    bound = bound_of(evaluation.metric, evaluation.items)
    return Evaluated(
        choose=parts["choose"], evaluate=parts["evaluate"], output=evaluation.confidence_output, bound=bound
    )


def _six(confidence: str) -> str:
    """Six deployments at most; only owners state more."""
    return confidence if len(confidence) <= len("0.123456") else str(Decimal(confidence).quantize(SIX_PLACES))
