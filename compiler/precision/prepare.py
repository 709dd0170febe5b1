"""What the compiler calls: a float32 graph and a precision in, the graph to compile and what the report says of it out."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any

from compiler.errors import ModelError
from compiler.ir import DType, Graph, TensorType
from compiler.passes import optimise
from compiler.precision.artefact import Calibration, OtherRanges, identity
from compiler.precision.calibrate import Measure, observe
from compiler.precision.contraction import CodedWeights
from compiler.precision.convert import choose, convert
from compiler.precision.error import measure
from compiler.precision.plan import STATIC

PRECISIONS = ("float32", "float16", "bfloat16", "int8")
GOAL = 26.0  # dB over the feeds that gave ranges; below, more contractions leave whole codes per tensor
STEP, ROUNDS = 4.0, 4  # what the limit of one contraction's own loss then rises by, and how often at most
HALVINGS = 2  # how often half of what the last rise made float16 may be given back to codes
NONE = 1000.0  # a limit that no codes keep: what is left when the last round still loses too much

Feeds = Sequence[Mapping[str, Any]]


def offered(tiles: Container[str]) -> tuple[str, ...]:
    """Precisions for a processor whose planes have these tiles."""
    return tuple(one for one in PRECISIONS if one != "bfloat16" or "bf16" in tiles)


def calibrate(graph: Graph, feeds: Feeds | None = None, precision: str = "int8") -> Calibration:
    """Ranges of a loaded model over example feeds (input name -> array), and what a precision loses.

    The artefact to compile with: ``compile(graph, precision=..., calibration=...)`` needs no feed then and measures nothing.
    Without ``feeds`` seeded ones are made up. What is lost is measured on feeds that gave no range, of eight or more every
    fourth; of fewer on all of them.
    """
    if precision not in PRECISIONS[1:]:
        raise ModelError(f"precision {precision!r} needs no calibration; choose one of: {', '.join(PRECISIONS[1:])}")
    optimised = optimise(graph)
    return replace(calibrated(optimised, feeds, precision), graph=identity(optimised))


def calibrated(graph: Graph, feeds: Feeds | None, precision: str, coded: CodedWeights | None = None) -> Calibration:
    """The calibration of an optimised graph. ``coded``: where codes of constant factors are kept.

    For int8 the limit of what one contraction may lose rises until the outputs keep ``GOAL`` dB; after ``ROUNDS`` limits
    that were not enough everything multiplies float16. The last rise may have missed the goal by little and cost many
    cycles, so with given feeds the limit falls back between the last two while the goal is kept. What made-up feeds
    measure says less of real inputs: there all that the rise brought stays as a margin.
    """
    coded = coded or CodedWeights()
    found, known, asked = observe(graph, feeds, coded)
    if precision == "int8":
        found = _chosen(graph, found, known, coded)
    return found if found.errors and asked is known else _measured(graph, found, precision, asked, coded)


def _chosen(graph: Graph, found: Calibration, known: Measure, coded: CodedWeights) -> Calibration:
    """With the limit that ``calibrated`` speaks of."""
    low = found.limit
    for limit in _limits(found):
        found = _measured(graph, replace(found, limit=limit), "int8", known, coded)
        if _keeps(found):
            break
        low = limit
    for _ in range(HALVINGS if _keeps(found) and not found.seeded else 0):
        between = _between(graph, found, low)
        if not between:
            break
        tried = _measured(graph, replace(found, limit=between[len(between) // 2]), "int8", known, coded)
        found, low = (tried, low) if _keeps(tried) else (found, tried.limit)
    return found


def _measured(graph: Graph, found: Calibration, precision: str, asked: Measure, coded: CodedWeights) -> Calibration:
    """The calibration with what it loses on what measures."""
    return replace(found, errors={precision: measure(convert(graph, precision, found, coded).graph, asked)})


def _keeps(found: Calibration) -> bool:
    return all(one["snr_db"] >= GOAL for outputs in found.errors.values() for one in outputs.values())


def _between(graph: Graph, found: Calibration, low: float) -> list[float]:
    """Limits above ``low`` and below that of ``found`` which choose otherwise than both, one of each choice."""
    limits = []
    last, end = (choose(graph, replace(found, limit=limit)) for limit in (low, found.limit))
    for value in _losses(found):
        modes = choose(graph, replace(found, limit=value)) if low < value < found.limit else last
        if modes not in (last, end):
            limits.append(value)
            last = modes
    return limits


def _losses(found: Calibration) -> list[float]:
    return sorted(value for modes in found.loss.values() for value in modes.values())


def _limits(found: Calibration) -> list[float]:
    """Rising limits, each of which takes some contraction out of a mode that the one before allowed."""
    limits = [found.limit]
    for value in _losses(found):
        if value >= limits[-1]:
            limits.append(limits[0] + STEP * ((value - limits[0]) // STEP + 1))
    return limits if len(limits) <= ROUNDS else [*limits[:ROUNDS], NONE]


def _has_range(kind: TensorType) -> bool:
    return kind.dtype == DType.F32 and kind.elements > 0


def _require(graph: Graph, precision: str, calibration: Calibration) -> None:
    """``OtherRanges`` for ranges that were taken of another graph, or for another precision."""
    if missing := [v for v in graph.inputs if _has_range(graph.types[v]) and v not in calibration.ranges]:
        raise OtherRanges(f"the ranges are of another model: they lack {missing[0]!r}; calibrate this one")
    if calibration.graph and calibration.graph != identity(graph):
        raise OtherRanges(
            "the ranges are of another model, of other sizes of it, or were taken by another version of the compiler; "
            "calibrate this one"
        )
    calibration.require(precision)


def prepare(graph: Graph, precision: str, calibration: Calibration | Feeds | None) -> tuple[Graph, dict[str, Any]]:
    """The graph to compile, and notes for the report (none for float32)."""
    if precision == "float32":
        return graph, {}
    coded = CodedWeights()
    if not isinstance(calibration, Calibration):
        calibration = calibrated(graph, calibration, precision, coded)
    else:
        _require(graph, precision, calibration)
    made = convert(graph, precision, calibration, coded)
    spans = {name: list(calibration.ranges[name]) for name in graph.inputs if name in calibration.ranges}
    accuracy = {
        "contractions": dict(made.contractions),
        "calibration": "seeded feeds" if calibration.seeded else "given feeds",
        "feeds": calibration.count,
        "measured": (calibration.unseen or calibration.count) if calibration.errors else 0,
        "unseen": calibration.unseen > 0,
        "inputs": spans if STATIC in made.contractions else {},  # other modes follow what comes
        "outputs": {name: dict(values) for name, values in calibration.errors.get(precision, {}).items()},
    }
    return made.graph, {"accuracy": accuracy}
