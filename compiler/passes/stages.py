"""A reduction in two stages: partial results of stretches of what is reduced, then the reduction of these."""

from __future__ import annotations

from dataclasses import replace

from compiler.ir import Access, Compute, Node, Operand, TensorType, identity
from compiler.passes.rewriter import Rewriter


def partial(node: Compute, writer: Rewriter, tag: str, results: int) -> Compute:
    """The first stage: the innermost loops from ``results`` on reduced, the loops before them an axis each of a new value."""
    output = writer.value(f"{node.output}~{tag}", TensorType(node.expr.dtype, node.loops[:results]))
    name = writer.name(staged(node, output))
    return replace(node, name=name, output=output, parallel=results, post=None).pruned()


def staged(node: Node, value: str) -> str:
    """A stage's name: the operation's with what its value's name adds."""
    return node.name + value[len(node.output) :]


def rest(node: Compute, partials: str, left: tuple[int, ...]) -> Compute:
    """The last stage: ``partials``, of the node's shape and ``left``, reduced, with the node's post and its operands."""
    loops = (*node.shape, *left)
    used = list(node.post.reads) if node.post else []
    post = node.post and node.post.renumbered({old: new + 1 for new, old in enumerate(used)})
    over = [*range(node.parallel), *(None for _ in left)]
    operands = (Operand(partials, Access.identity(len(loops))), *(node.operands[i].keep(over) for i in used))
    return replace(node, loops=loops, operands=operands, expr=identity(node.expr.dtype), post=post)
