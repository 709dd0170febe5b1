"""Rewrites a graph so that every node fits one kind of instruction: enough operand ports, an epilogue that a plane can do.

A pure pass from graph to graph; values keep their bits, because what is split off is stored in its own type.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from compiler.costs.contraction import fits_planes
from compiler.costs.cycles import alu_passes
from compiler.ir.access import Access
from compiler.ir.expr import FREE, Expr, Step
from compiler.ir.graph import Compute, Graph, Operand
from compiler.ir.types import TensorType
from compiler.passes.rewriter import Rewriter

if TYPE_CHECKING:
    from compiler.isa.machine import Machine

VECTOR_OPERANDS = 4
EPILOGUE_OPERANDS = 3
EPILOGUE_PASSES = (
    8  # a plane's row may take so many times longer for its epilogue; beyond, the vector unit does the rest
)


def legalise(graph: Graph, machine: Machine) -> Graph:
    """The same outputs from nodes that the instruction set can express."""
    parts = Rewriter(graph)
    for node in graph.nodes:
        if isinstance(node, Compute):
            _compute(node, graph, machine, parts)
        else:
            parts.nodes.append(node)
    return parts.done()


def _compute(node: Compute, graph: Graph, machine: Machine, parts: Rewriter) -> None:
    node = _compact(node)
    if node.reducer and node.post and (_split_needed(node, machine) or _only_vector(node, graph, machine)):
        node = _split_post(node, graph, machine, parts)
    while len(node.operands) > VECTOR_OPERANDS + (1 if node.is_contraction else 0):
        shorter = _split_operands(node, parts)
        if shorter is None:
            break
        node = shorter
    parts.nodes.append(node)


def args_of(expr: Expr | None) -> tuple[int, ...]:
    """Positions of the operands that an expression reads, ascending."""
    if expr is None:
        return ()
    return tuple(sorted({int(s.imm or 0) for s in expr.steps if s.op == "arg" and s.imm != -1}))


def renumber(expr: Expr, places: dict[int, int]) -> Expr:
    """The same expression over other operand positions."""
    return Expr(
        tuple(replace(s, imm=places[int(s.imm or 0)]) if s.op == "arg" and s.imm != -1 else s for s in expr.steps)
    )


def _compact(node: Compute) -> Compute:
    """Without operands that nobody reads, and equal operands once (a contraction keeps its first two).

    What is read both before and behind a reduction is two operands: one stream has the reduced loops, the other has not.
    """
    keep = [0, 1] if node.is_contraction else []
    operands = [node.operands[i] for i in keep]
    before: dict[int, int] = {i: i for i in keep}
    behind: dict[int, int] = {}
    for i in args_of(node.expr):
        if i not in before:
            before[i] = _placed(node.operands[i], operands, len(keep))
    start = len(operands) if node.reducer else len(keep)
    for i in args_of(node.post):
        behind[i] = _placed(node.operands[i], operands, start)
    post = renumber(node.post, behind) if node.post else None
    return replace(node, operands=tuple(operands), expr=renumber(node.expr, before), post=post)


def _placed(operand: Operand, operands: list[Operand], start: int) -> int:
    """The operand's position from ``start`` on, where it is put if it is not there."""
    if operand not in operands[start:]:
        operands.append(operand)
    return operands.index(operand, start)


def _split_needed(node: Compute, machine: Machine) -> bool:
    assert node.post is not None
    if not node.is_contraction:
        return len(node.operands) > VECTOR_OPERANDS
    return not _behind_planes(node.post, machine)


def _only_vector(node: Compute, graph: Graph, machine: Machine) -> bool:
    """Whether a contraction must go to the vector unit, with more operands than that has."""
    if not node.is_contraction or len(node.operands) <= VECTOR_OPERANDS:
        return False
    return not fits_planes(node, graph, machine)


def kept_behind(post: Expr, machine: Machine) -> Expr | None:
    """As much of an epilogue as one pass behind the planes does, where the rest is a map of few operands; None if nothing is."""
    cut = _last_fitting(post, machine, 1)
    return None if cut < 0 else _part(post, cut)


def split_post(graph: Graph, machine: Machine, chosen: Collection[int]) -> Graph:
    """The graph with what one pass behind the planes leaves of the epilogues of ``chosen`` nodes as maps of their own."""
    parts = Rewriter(graph)
    for at, node in enumerate(graph.nodes):
        if at in chosen and isinstance(node, Compute):
            parts.nodes.append(_split_post(_compact(node), graph, machine, parts, 1))
        else:
            parts.nodes.append(node)
    return parts.done()


def _behind_planes(post: Expr, machine: Machine, most: int = EPILOGUE_PASSES) -> bool:
    """Whether the arithmetic behind the planes can do an expression in ``most`` passes: few enough operands, not the factors, few
    enough steps."""
    extra = args_of(post)
    return (
        len(extra) <= EPILOGUE_OPERANDS
        and not {0, 1} & {*extra}
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
    operands = [Operand(middle, Access.identity(len(shape)))]
    left = list(node.post.steps)
    if kept is not None:
        left[cut] = Step("arg", (), kept.dtype, -1)
    rest = _prune(Expr(tuple(left)))
    places = {}
    for i in args_of(rest):
        old = node.operands[i]
        matrix = tuple(row[: node.parallel] for row in old.access.matrix)
        places[i] = len(operands)
        operands.append(Operand(old.value, Access(old.access.offset, matrix), old.fill))
    steps = tuple(
        s if s.op != "arg" else replace(s, imm=0 if s.imm == -1 else places[int(s.imm or 0)]) for s in rest.steps
    )
    return replace(node, loops=shape, operands=tuple(operands), expr=Expr(steps), reducer=None, post=None)


def _last_fitting(post: Expr, machine: Machine, most: int) -> int:
    """The step that makes the most of the reduced value behind the planes, nothing below it used elsewhere; -1 for none."""
    found = -1
    for i, step in enumerate(post.steps[:-1]):
        below = _closure(post, i)
        sums = [k for k in below if post.steps[k].op == "arg" and post.steps[k].imm == -1]
        outside = [s for k, s in enumerate(post.steps) if k not in below]
        inside = {k for k in below if k != i and post.steps[k].op not in FREE}
        again = any(s.op == "arg" and s.imm == -1 for s in outside)
        if not sums or step.op in FREE or again or any({*s.args} & {*inside, *sums} for s in outside):
            continue
        if _behind_planes(_part(post, i), machine, most):
            found = i
    return found


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
    needed = sorted(_closure(node.expr, choice))
    place = {old: new for new, old in enumerate(needed)}
    steps = tuple(replace(node.expr.steps[i], args=tuple(place[a] for a in node.expr.steps[i].args)) for i in needed)
    loops, name = len(node.loops), parts.name(f"{node.name}~part")
    first = replace(node, name=name, output=middle, parallel=loops, expr=Expr(steps), reducer=None, post=None)
    parts.nodes.append(_compact(first))
    position = len(node.operands)
    rest = list(node.expr.steps)
    rest[choice] = Step("arg", (), dtype, position)
    operands = (*node.operands, Operand(middle, Access.identity(loops)))
    return _compact(replace(node, operands=operands, expr=_prune(Expr(tuple(rest)))))


def _best_cut(node: Compute) -> int | None:
    """The step to store: 2 to 4 operands below it, nothing below it used elsewhere if possible, most operands saved."""
    best: tuple[tuple[int, int, int], int] | None = None
    for i in range(len(node.expr.steps) - 1):
        if node.expr.steps[i].op in FREE:
            continue
        below = _closure(node.expr, i)
        reads = {node.expr.steps[k].imm for k in below if node.expr.steps[k].op == "arg"}
        if not 2 <= len(reads) <= VECTOR_OPERANDS:
            continue
        outside = [s for k, s in enumerate(node.expr.steps) if k not in below]
        shared = sum(a in below and a != i and node.expr.steps[a].op not in FREE for s in outside for a in s.args)
        key = (shared, -len(reads), i)
        if best is None or key < best[0]:
            best = (key, i)
    return None if best is None else best[1]


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
