"""From an optimised float32 graph to one that computes in the chosen precision."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from math import prod

from compiler.ir import Compute, DType, Graph, reads_of
from compiler.passes import again, dead_code, fold_views, merge_equal
from compiler.precision.artefact import Calibration
from compiler.precision.contraction import CodedWeights, row_dims
from compiler.precision.encoding import Encoding
from compiler.precision.ends import ends
from compiler.precision.limited import bounded
from compiler.precision.plan import (
    FLOAT,
    HALF,
    ROW,
    STATIC,
    Plan,
    factors,
    fits_half,
    half_plan,
    has_codes,
    integer_plan,
    is_float_contraction,
)
from compiler.precision.reciprocals import of_rows
from compiler.precision.rewrite import Conversion

HALVES = {"float16": DType.F16, "bfloat16": DType.BF16}
SELDOM = 256  # products of an element, for which finding its row's scale and rounding it is not worth it
# Nor is it for more where rows are enough to hide the loads of weights twice as large: planes have far more cells than vector
# units have lanes, so they do that many products twice in less time than the others pass over the rows twice.
OFTEN, ROWS = 1152, 32


@dataclass(frozen=True)
class Converted:
    """``graph``: what is compiled; its metadata says what the host gives (``wire``). ``contractions``: how many multiply
    in which mode."""

    graph: Graph
    contractions: Mapping[str, int]


def convert(graph: Graph, precision: str, calibration: Calibration, coded: CodedWeights | None = None) -> Converted:
    """The optimised graph in ``float16``, ``bfloat16`` or ``int8``; a pure function of graph and calibration. ``coded``: codes
    of constant factors that are made already."""
    if precision in HALVES:
        plan = half_plan(graph, calibration.ranges, HALVES[precision])
    else:
        plan = integer_plan(graph, choose(graph, calibration), calibration.ranges)
    made = Conversion(graph, plan, coded).run()
    metadata = {**made.metadata, "wire": wire(graph, plan), **kept(graph, plan)}
    for step in (dead_code, fold_views, merge_equal, again, of_rows, ends):
        made = step(made)
    counts = Counter(plan.modes.get(n.output, FLOAT) for n in graph.nodes if is_float_contraction(n))
    return Converted(replace(made, metadata=metadata), dict(sorted(counts.items())))


def choose(graph: Graph, calibration: Calibration) -> dict[str, str]:
    """A mode for every float32 contraction.

    By constant weights: codes with one scale per tensor where that loses little of the operation's own result, else codes
    with one scale per row (where rows are apart), else float16. Two factors that both come at run time are multiplied in float16:
    their codes would need scales measured on both sides for products that seldom fill a plane. Rows of tokens have their own
    scales at once when the feeds were made up: how large a token's features become depends on the text (but not where the
    operations before limit them, as they do a recurrent state). Scales of rows cost
    two passes over the rows; elements that are multiplied ``SELDOM`` times or less (of many rows ``OFTEN``) are float16 instead,
    which loses less too.
    """
    floats = [n for n in graph.nodes if isinstance(n, Compute) and is_float_contraction(n)]
    limited = bounded(graph) if calibration.seeded else set()
    return {node.output: _mode(node, graph, calibration, limited) for node in floats}


def _mode(node: Compute, graph: Graph, calibration: Calibration, limited: Container[str]) -> str:
    half = all(v in graph.constants or fits_half(calibration.ranges.get(v)) for v in reads_of(node)[:2])
    best = _codes(node, graph, calibration, limited)
    if best is None or (best == ROW and half and seldom(node, graph)):
        return HALF if half else FLOAT
    return best


def _codes(node: Compute, graph: Graph, calibration: Calibration, limited: Container[str]) -> str | None:
    """The first mode of codes that loses little; None where all lose more. ``limited``: values of which no text is larger."""
    loss = calibration.loss.get(node.output, {}) if has_codes(node, graph) else {}
    known = node.operands[factors(node, graph)[0]].value in limited
    order = (ROW, STATIC) if calibration.seeded and not known and has_token_rows(node, graph) else (STATIC, ROW)
    return next((mode for mode in order if loss.get(mode, -999.0) >= calibration.limit), None)


def seldom(node: Compute, graph: Graph) -> bool:
    """Whether an element of the moving factor is part of few products."""
    moved = graph.types[node.operands[factors(node, graph)[0]].value].elements
    many = moved >= ROWS * node.reduction
    return node.points * node.reduction <= (OFTEN if many else SELDOM) * moved


def has_token_rows(node: Compute, graph: Graph) -> bool:
    """Whether the moving factor is several rows whose last dimensions are reduced, as a transformer's features are."""
    dims = row_dims(node, graph)
    shape = graph.types[node.operands[factors(node, graph)[0]].value].shape
    return (
        dims is not None and dims == tuple(range(len(shape) - len(dims), len(shape))) and prod(shape[: -len(dims)]) > 1
    )


def wire(graph: Graph, plan: Plan) -> str:
    """What the host gives for each input that is stored otherwise than the model says, as JSON text."""
    found: dict[str, Mapping[str, object]] = {}
    for name in graph.inputs:
        storage = plan.storage.get(name)
        if isinstance(storage, Encoding):
            found[name] = {"host": "f32", "scale": storage.scale, "zero": storage.zero}
        elif storage is not None:
            found[name] = {"host": "f32"}
    return json.dumps(found, sort_keys=True)


def kept(graph: Graph, plan: Plan) -> dict[str, str]:
    """How variables are kept as codes, as metadata: JSON text by the variable's name; nothing where none is."""
    found = {s.input: plan.storage.get(s.input) for s in graph.states}
    codes = {name: {"scale": e.scale, "zero": e.zero} for name, e in found.items() if isinstance(e, Encoding)}
    return {"kept": json.dumps(codes, sort_keys=True)} if codes else {}
