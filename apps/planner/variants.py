"""Collect the variants of a plan: every candidate model on every pool."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from apps.compilation.models import CompileJob, CompileState, Precision, Program
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

Signature = tuple[tuple[str, str, tuple[int, ...]], ...]  # names, types and shapes of inputs
Compiling = frozenset[tuple[UUID, str, str]]  # version, target and precision of compiles under way


@dataclass(frozen=True)
class Deployment:
    """A model version on a pool, with the program that would run there.

    `program` is None until the program is compiled.
    """

    version: ModelVersion
    pool: Pool
    program: Program | None

    @property
    def title(self) -> str:
        narrow = self.program is not None and self.program.precision != Precision.FLOAT32
        return f"{self.version} in {self.program.precision}" if narrow and self.program else str(self.version)


@dataclass(frozen=True)
class VariantSet:
    """The variants for the solver, the deployments by variant key, and the number of compiles still under way."""

    variants: list[Variant]
    deployments: dict[str, Deployment]
    compiling: int = 0


@dataclass(frozen=True)
class CandidateModels:
    """The candidate models of a plan.

    `fits(program)` tells whether the program accepts the items. `evaluation(deployment, precision)` returns the
    evaluation, or None.
    """

    versions: list[ModelVersion]
    fits: Callable[[Program], bool]
    evaluation: Callable[[Deployment, str], Evaluation | None]


@dataclass(frozen=True)
class Tariff:
    """A price book, a class of service, and the instant that determines the tariff."""

    book: PriceBookDocument
    klass: str
    instant: datetime


def candidate_models_of_version(version: ModelVersion, dims: dict[str, int] | None) -> CandidateModels:
    """Return the models that were evaluated on the same data as the version and accept the same inputs.

    `dims` chooses among the compiled sizes of the variable dimensions.
    """
    versions, evaluations = alternatives(version)
    wanted = signature_of(programs_of_versions([one.pk for one in versions]), version, dims)

    def evaluation(deployment: Deployment, precision: str) -> Evaluation | None:
        # The owner's evaluation is of the model as uploaded, so it proves nothing about lower precisions.
        return evaluations.get(deployment.version.pk) if precision == Precision.FLOAT32 else None

    return CandidateModels(versions, lambda program: wanted is None or signature(program) == wanted, evaluation)


def variants_collect(*, models: CandidateModels, klass: str, book: PriceBookDocument, instant: datetime) -> VariantSet:
    """Return the variants of all candidates on all active pools, in every precision that is compiled or being compiled."""
    programs: dict[UUID, list[Program]] = defaultdict(list)
    for program in programs_of_versions([one.pk for one in models.versions]):
        if models.fits(program):
            programs[program.model_version_id].append(program)
    tariff = Tariff(book, klass, instant)
    compiling = frozenset(compiles_open(models.versions).values_list("model_version_id", "target", "precision"))
    answers: dict[UUID, Evaluated] = {}
    variants: list[Variant] = []
    deployments: dict[str, Deployment] = {}
    for pool in pools():
        for one in models.versions:
            for precision in precisions_of(one, pool, programs[one.pk], compiling):
                deployment = deployment_of(one, pool, programs[one.pk], precision)
                key = f"{one.pk}@{pool.slug}" + ("" if precision == Precision.FLOAT32 else f":{precision}")
                deployments[key] = deployment
                variant = _variant(key, deployment, precision, tariff, compiling)
                variants.append(_evaluated(variant, deployment, models.evaluation(deployment, precision), answers))
    return VariantSet(variants, deployments, len(compiling))


def compiles_open(versions: Sequence[ModelVersion]) -> QuerySet[CompileJob]:
    """Return the queued and running compiles of these versions."""
    return CompileJob.objects.filter(model_version__in=versions, state__in=(CompileState.QUEUED, CompileState.RUNNING))


def _evaluated(
    variant: Variant, deployment: Deployment, evaluation: Evaluation | None, answers: dict[UUID, Evaluated]
) -> Variant:
    # The solver compares evaluations by identity, so `answers` holds one object for each evaluation.
    if evaluation is None:
        return variant
    if evaluation.pk not in answers:
        answers[evaluation.pk] = evaluated_of(evaluation)
    return replace(variant, evaluated=answers[evaluation.pk], **_combination_facts(deployment, evaluation))


def _combination_facts(deployment: Deployment, evaluation: Evaluation) -> dict[str, Any]:
    program = deployment.program
    if program is None:
        return {}
    chosen_on = evaluation.items["choose"].get("dataset_digest", "")  # empty where the platform evaluated
    votes = evaluation.metric.partition(" of ")[0] in VOTING
    return {
        "takes": (signature(program), chosen_on),
        "program": program.digest,
        "classes": classes_of(program, evaluation.confidence_output) if votes else None,
    }


def classes_of(program: Program, output: str) -> int | None:
    """Return the number of classes that an output scores; None unless the output has one score per class."""
    shape: list[int | str] = next((one["shape"] for one in program.outputs if one["name"] == output), [])
    sizes = [size for size in shape if size != 1]
    return sizes[0] if len(sizes) == 1 and isinstance(sizes[0], int) else None


def precisions_of(
    version: ModelVersion, pool: Pool, programs: list[Program], compiling: Compiling = frozenset()
) -> list[str]:
    """Return float32, and every precision that is compiled or being compiled for the pool's processor."""
    target = pool.processor.name if pool.processor else None
    made = {p.precision for p in programs if p.model_version_id == version.pk and p.target == target}
    made |= {precision for pk, name, precision in compiling if pk == version.pk and name == target}
    return [precision for precision in Precision.values if precision == Precision.FLOAT32 or precision in made]


def signature(program: Program) -> Signature:
    """Return the names, types and shapes of a program's inputs."""
    return tuple(sorted((value["name"], value["dtype"], tuple(value["shape"])) for value in program.inputs))


def signature_of(programs: list[Program], version: ModelVersion, dims: dict[str, int] | None) -> Signature | None:
    """Return the version's inputs at these sizes.

    If `dims` is None, return the inputs of the smallest program; None if there is no program.
    """
    own = [p for p in programs if p.model_version_id == version.pk and (dims is None or p.dims == dims)]
    if own or dims is None:
        return min((signature(program) for program in own), default=None)
    return _inputs_of(version, dims)


def _inputs_of(version: ModelVersion, dims: dict[str, int]) -> Signature:
    shapes = [(v["name"], v["dtype"], [dims.get(size, size) for size in v["shape"]]) for v in version.inputs]
    return tuple(sorted((name, dtype, tuple(shape)) for name, dtype, shape in shapes))


def alternatives(version: ModelVersion) -> tuple[list[ModelVersion], dict[UUID, Evaluation]]:
    """Return the versions that were evaluated on the same data, with their evaluations.

    If this version has no evaluation, return only this version.
    """
    family = family_of(version)
    evaluations = {e.model_version_id: e for e in family_evaluations(family.pk)} if family else {}
    return ([e.model_version for e in evaluations.values()] or [version]), evaluations


def missing_programs(
    *, version: ModelVersion, dims: dict[str, int] | None
) -> Iterator[tuple[ModelVersion, str, dict[str, int]]]:
    """Yield (version, target, sizes) for each program that the version or one of its alternatives lacks on an offered
    processor.
    """
    versions, _ = alternatives(version)
    programs = programs_of_versions([one.pk for one in versions])
    wanted = signature_of(programs, version, dims)
    if wanted is None and not version.symbolic_dims:
        wanted = _inputs_of(version, {})
    programs = [program for program in programs if wanted is None or signature(program) == wanted]
    compiling = [(job.model_version_id, job.target, job.dims) for job in compiles_open(versions)]
    for one in versions:
        sizes = sizes_for(one, wanted)
        for target in _targets_lacking(one, programs):
            if sizes is not None and (one.pk, target, sizes) not in compiling:
                yield one, target, sizes


def _targets_lacking(version: ModelVersion, programs: list[Program]) -> list[str]:
    offered = [(pool, pool.processor.name) for pool in pools() if pool.processor]
    return [name for pool, name in offered if deployment_of(version, pool, programs).program is None]


def sizes_for(version: ModelVersion, wanted: Signature | None) -> dict[str, int] | None:
    """Return the sizes at which a version accepts the wanted inputs; None if there are no such sizes."""
    shapes = {name: (dtype, shape) for name, dtype, shape in wanted or ()}
    sizes: dict[str, int] = {}
    for value in version.inputs:
        dtype, shape = shapes.get(value["name"], ("", ()))
        if dtype != value["dtype"] or len(shape) != len(value["shape"]):
            return None
        for own, size in zip(value["shape"], shape, strict=True):
            if (sizes.setdefault(own, size) if isinstance(own, str) else own) != size:
                return None
    return sizes if len(shapes) == len(version.inputs) else None


def deployment_of(
    version: ModelVersion, pool: Pool, programs: list[Program], precision: str = Precision.FLOAT32
) -> Deployment:
    """Return the version's deployment on the pool, with the newest program in this precision that fits the pool."""
    own = (
        p for p in programs if p.model_version_id == version.pk and not p.keeps_state
    )  # items of a plan are independent
    fitting = [p for p in own if p.precision == precision]
    if pool.kind == PoolKind.HOST:
        # A host runs the model file; its counts are those of the first target by name, so they never change.
        fitting.sort(key=lambda program: program.target)
        return Deployment(version, pool, fitting[0] if fitting else None)
    processor = pool.processor
    exact = [p for p in fitting if processor and (p.target, p.target_digest) == (processor.name, processor.digest)]
    return Deployment(version, pool, exact[0] if exact else None)


def _variant(
    key: str, deployment: Deployment, precision: str, tariff: Tariff, compiling: Compiling = frozenset()
) -> Variant:
    program, pool = deployment.program, deployment.pool
    common: dict[str, Any] = {
        "key": key,
        "model": deployment.version.model.name + ("" if precision == Precision.FLOAT32 else f" in {precision}"),
        "pool": pool.slug,
        "evaluated": None,
        "least": tariff.book.contract_minimum,
    }
    if program is None:
        return Variant(**common, price=_unpriced, missing=(_not_compiled(deployment, precision, compiling),))
    common["price"] = pricer_of(program, pool, tariff.klass, tariff.book, tariff.instant)
    if pool.kind == PoolKind.HOST:
        return _host_variant(deployment, program, common)
    return Variant(
        **common,
        latency=Fraction(program.latency_cycles, program.clock_hz) * pool.slowdown,
        interval=Fraction(program.interval_cycles, program.clock_hz) * pool.slowdown,
        load=load_seconds(program) * pool.slowdown,
        certainty="exact" if program.exact else "bound",
    )


def _not_compiled(deployment: Deployment, precision: str, compiling: Compiling) -> str:
    target = deployment.pool.processor.name if deployment.pool.processor else "any processor"
    narrow = "" if precision == Precision.FLOAT32 else f" in {precision}"
    if (deployment.version.pk, target, precision) in compiling:
        return (
            f"{deployment.version}{narrow} is still being compiled for {target}. Plan again when the program is ready."
        )
    return f"{deployment.version} is not compiled for {target} and this kind of item{narrow} yet."


def _host_variant(deployment: Deployment, program: Program, common: dict[str, Any]) -> Variant:
    measured = host_measurement_latest(pool=deployment.pool, program_digest=program.digest)
    if measured is None:
        reason = (
            f"{deployment.version} has not been measured on {deployment.pool.slug} yet. Takt will measure the program "
            "within a minute. Plan again then."
        )
        return Variant(**common, certainty="measured", missing=(reason,))
    seconds = Fraction(measured.p95_ns, NANOSECONDS)
    return Variant(**common, latency=seconds, interval=seconds, certainty="measured")


def _unpriced(_executions: int) -> Decimal:
    raise ValueError("The program has no price until it is compiled.")


def pricer_of(
    program: Program, pool: Pool, klass: str, book: PriceBookDocument, instant: datetime
) -> Callable[[int], Decimal]:
    """Return a function that computes the exact price of a number of executions."""
    counts = Counts(operations=program.operations, cycles=program.interval_cycles)
    terms = Terms(processor_class=pool.processor_class, precision=program.precision, klass=klass, instant=instant)
    return lambda executions: rate(book=book, counts=counts, executions=executions, terms=terms).amount


def evaluated_of(evaluation: Evaluation) -> Evaluated:
    """Return an evaluation in the solver's form. Confidences are rounded to six decimal places."""
    parts = {
        name: Answers.of(part["labels"], part["predicted"], [_six(one) for one in part["confidence"]])
        for name, part in evaluation.items.items()
    }
    bound = bound_of(evaluation.metric, evaluation.items)
    return Evaluated(tuning=parts["choose"], test=parts["evaluate"], output=evaluation.confidence_output, bound=bound)


def _six(confidence: str) -> str:
    return confidence if len(confidence) <= len("0.123456") else str(Decimal(confidence).quantize(SIX_PLACES))
