"""Rewrites a graph so that every node fits one kind of instruction: enough operand ports, an epilogue that a plane can do.

A pure pass from graph to graph; values keep their bits, because what is split off is stored in its own type.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from compiler.costs import alu_passes, fits_planes
from compiler.ir import FREE, Access, Compute, Expr, Graph, Node, Operand, Step, TensorType
from compiler.isa import Machine
from compiler.passes.fuse import MAX_EXTRA, MAX_STREAMS
from compiler.passes.rewriter import Rewriter

EPILOGUE_PASSES = (
    8  # a plane's row may take so many times longer for its epilogue; beyond, the vector unit does the rest
)


def legalise(graph: Graph, machine: Machine) -> Graph:
    """The same outputs from nodes that the instruction set can express."""
    parts = Rewriter(graph)
    return parts.each(lambda node: [_fitted(node, graph, machine, parts)], Compute)


def _fitted(node: Compute, graph: Graph, machine: Machine, parts: Rewriter) -> Compute:
    """What makes the node's result; what comes before it is written."""
    node = _compact(node)
    if node.reducer and node.post and (_split_needed(node, machine) or _only_vector(node, graph, machine)):
        node = _split_post(node, graph, machine, parts)
    while len(node.operands) > MAX_STREAMS + (1 if node.is_contraction else 0):
        shorter = _split_operands(node, parts)
        if shorter is None:
            break
        node = shorter
    return node


def _compact(node: Compute) -> Compute:
    """Without operands that nobody reads, and equal operands once (a contraction keeps its first two).

    What is read both before and behind a reduction is two operands: one stream has the reduced loops, the other has not.
    """
    keep = [0, 1] if node.is_contraction else []
    operands = [node.operands[i] for i in keep]
    before: dict[int, int] = {i: i for i in keep}
    behind: dict[int, int] = {}
    for i in node.expr.reads:
        if i not in before:
            before[i] = _placed(node.operands[i], operands, len(keep))
    start = len(operands) if node.reducer else len(keep)
    for i in node.post.reads if node.post else ():
        behind[i] = _placed(node.operands[i], operands, start)
    post = node.post and node.post.renumbered(behind)
    return replace(node, operands=tuple(operands), expr=node.expr.renumbered(before), post=post)


def _placed(operand: Operand, operands: list[Operand], start: int) -> int:
    """The operand's position from ``start`` on, where it is put if it is not there."""
    if operand not in operands[start:]:
        operands.append(operand)
    return operands.index(operand, start)


def _split_needed(node: Compute, machine: Machine) -> bool:
    assert node.post is not None
    if not node.is_contraction:
        return len(node.operands) > MAX_STREAMS
    return not _behind_planes(node.post, machine)


def _only_vector(node: Compute, graph: Graph, machine: Machine) -> bool:
    """Whether a contraction must go to the vector unit, with more operands than that has."""
    if not node.is_contraction or len(node.operands) <= MAX_STREAMS:
        return False
    return not fits_planes(node, graph, machine)


def kept_behind(post: Expr, machine: Machine) -> Expr | None:
    """As much of an epilogue as one pass behind the planes does, where the rest is a map of few operands; None if nothing is."""
    cut = _last_fitting(post, machine, 1)
    return None if cut < 0 else _part(post, cut)


def split_post(graph: Graph, machine: Machine, chosen: Collection[str]) -> Graph:
    """The graph with what one pass behind the planes leaves of the epilogues that make ``chosen`` values as maps of their own."""
    parts = Rewriter(graph)

    def made(node: Compute) -> list[Node] | None:
        return [_split_post(_compact(node), graph, machine, parts, 1)] if node.output in chosen else None

    return parts.each(made, Compute)


def _behind_planes(post: Expr, machine: Machine, most: int = EPILOGUE_PASSES) -> bool:
    """Whether the arithmetic behind the planes can do an expression in ``most`` passes: few enough operands, not the factors, few
    enough steps."""
    return (
        len(post.reads) <= MAX_EXTRA
        and not {0, 1} & post.reads.keys()
        and alu_passes(post, machine) <= most * machine.matrix.alus
    )


def _split_post(node: Compute, graph: Graph, machine: Machine, parts: Rewriter, most: int = EPILOGUE_PASSES) -> Compute:
    """Store the reduced value, or as much of ``post`` as fits behind the planes; the rest is a map, which is answered."""
    assert node.post is not None
    shape = node.loops[: node.parallel]
    cut = _last_fitting(node.post, machine, most) if fits_planes(node, graph, machine) else -1
    kept = None if cut < 0 else _part(node.post, cut)
    middle = parts.value(f"{node.output}~sum", TensorType(kept.dtype if kept else node.expr.dtype, shape))
    first = replace(node, name=parts.name(f"{node.name}~sum"), output=middle, post=kept)
    parts.nodes.append(_compact(first))
    left = list(node.post.steps)
    if kept is not None:
        left[cut] = Step("arg", (), kept.dtype, -1)
    rest = _prune(Expr(tuple(left)))
    stored = Operand(middle, Access.identity(len(shape)))
    operands = (stored, *(node.operands[i].keep(range(node.parallel)) for i in rest.reads))
    places = {-1: 0} | {i: at for at, i in enumerate(rest.reads, 1)}
    steps = tuple(replace(s, imm=places[int(s.imm or 0)]) if s.op == "arg" else s for s in rest.steps)
    return replace(node, loops=shape, operands=operands, expr=Expr(steps), reducer=None, post=None)


def _last_fitting(post: Expr, machine: Machine, most: int) -> int:
    """The step that makes the most of the reduced value behind the planes, nothing below it used elsewhere; -1 for none."""
    fitting = [
        i
        for i, step in enumerate(post.steps[:-1])
        if step.op not in FREE and _sum_ends_in(post, i) and _behind_planes(_part(post, i), machine, most)
    ]
    return max(fitting, default=-1)


def _sum_ends_in(post: Expr, step: int) -> bool:
    """Whether a step depends on the reduced value, and all that depends on it otherwise does so by way of this step."""
    below = _closure(post, step)
    sums = {k for k, s in enumerate(post.steps) if s.op == "arg" and s.imm == -1}
    inside = {k for k in below if k != step and post.steps[k].op not in FREE}
    outside = [s for k, s in enumerate(post.steps) if k not in below]
    return bool(sums) and sums <= below and not any({*s.args} & (inside | sums) for s in outside)


def _part(expr: Expr, step: int) -> Expr:
    """The expression of one step."""
    return _prune(Expr(expr.steps[: step + 1]))


def _split_operands(node: Compute, parts: Rewriter) -> Compute | None:
    """Compute a part of ``expr`` that reads at least two operands beforehand; None when there is no such part."""
    choice = _best_cut(node)
    if choice is None:
        return None
    dtype = node.expr.steps[choice].dtype
    middle = parts.value(f"{node.output}~part", TensorType(dtype, node.loops))
    loops, name = len(node.loops), parts.name(f"{node.name}~part")
    first = replace(
        node, name=name, output=middle, parallel=loops, expr=_part(node.expr, choice), reducer=None, post=None
    )
    parts.nodes.append(_compact(first))
    position = len(node.operands)
    rest = list(node.expr.steps)
    rest[choice] = Step("arg", (), dtype, position)
    operands = (*node.operands, Operand(middle, Access.identity(loops)))
    return _compact(replace(node, operands=operands, expr=_prune(Expr(tuple(rest)))))


def _best_cut(node: Compute) -> int | None:
    """The step to store: 2 to 4 operands below it, nothing below it used elsewhere if possible, most operands saved."""
    steps = node.expr.steps
    keys = [_cut_key(node.expr, i) for i in range(len(steps) - 1) if steps[i].op not in FREE]
    best = min((key for key in keys if 2 <= -key[1] <= MAX_STREAMS), default=None)
    return None if best is None else best[2]


def _cut_key(expr: Expr, step: int) -> tuple[int, int, int]:
    """Uses elsewhere of what is below a step, minus the number of operands below it, and the step."""
    below = _closure(expr, step)
    reads = {expr.steps[k].imm for k in below if expr.steps[k].op == "arg"}
    inside = {k for k in below if k != step and expr.steps[k].op not in FREE}
    shared = sum(a in inside for k, s in enumerate(expr.steps) if k not in below for a in s.args)
    return shared, -len(reads), step


def _closure(expr: Expr, step: int) -> set[int]:
    """Steps that ``step`` depends on, itself included."""
    seen = {step}
    for i in range(step, -1, -1):
        if i in seen:
            seen.update(expr.steps[i].args)
    return seen


def _prune(expr: Expr) -> Expr:
    needed = sorted(_closure(expr, len(expr.steps) - 1))
    place = {old: new for new, old in enumerate(needed)}
    return Expr(tuple(replace(expr.steps[i], args=tuple(place[a] for a in expr.steps[i].args)) for i in needed))
