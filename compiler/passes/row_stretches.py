"""Where row tiling may begin, and how far rows go their own way: questions about one graph, whatever the processor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from compiler.ir import Compute, Graph, Join, Node, Operand, Reshape, View, operands_of, reads_of


def joins(node: Node, graph: Graph) -> bool:
    """Whether both factors of a contraction are made as the program runs."""
    if not is_product(node) or node.guard is not None:
        return False
    return not any(o.value in graph.constants for o in operands_of(node)[:2])


def leaving(graph: Graph, least: int) -> frozenset[str]:
    """Products behind which rows are reduced and then leave as outputs of ``least`` bytes or more."""
    makers = {n.output: n for n in graph.nodes}
    found: set[str] = set()
    for name in graph.outputs:
        if graph.types[name].bytes >= least:
            products, reduced = _behind_products(name, makers)
            found |= products if reduced else set()
    return frozenset(found)


def _behind_products(name: str, makers: Mapping[str, Node]) -> tuple[set[str], bool]:
    """The last products before a value, and whether something is reduced between them and it."""
    ways, seen, reduced = [name], {name}, False
    products: set[str] = set()
    while ways:
        node = makers.get(ways.pop())
        if node is None:
            continue
        if is_product(node):
            products.add(node.output)
            continue
        reduced |= isinstance(node, Compute) and node.reducer is not None
        ways += [v for v in reads_of(node) if v not in seen]
        seen.update(reads_of(node))
    return products, reduced


def grouped(graph: Graph) -> frozenset[str]:
    """Values in groups that lie outermost, are normalised one by one, and are added up one after the other."""
    makers = {n.output: n for n in graph.nodes}
    reduced = {value for node in graph.nodes for value in _reduced_by_groups(node, graph)}
    sums = (n for n in graph.nodes if isinstance(n, Compute) and n.is_contraction and len(n.loops) >= n.parallel + 2)
    return frozenset(
        value
        for product in sums
        for operand in product.operands[:2]
        for value in _walked_outermost(operand, len(product.loops), product.parallel, makers, graph)
        if value in reduced
    )


def _reduced_by_groups(node: Node, graph: Graph) -> list[str]:
    """Values that a node reduces whose outermost dimension is the outermost of the result."""
    if not isinstance(node, Compute) or not node.reducer or node.is_contraction or node.guard is not None:
        return []
    shaped = (o for o in node.operands if graph.types[o.value].shape)
    return [o.value for o in shaped if row_loop(o, 0, node.parallel) == 0]


def _walked_outermost(
    operand: Operand, width: int, loop: int, makers: Mapping[str, Node], graph: Graph
) -> Iterator[str]:
    """The operand and the largest operands of the maps before it, as long as ``loop`` is their outermost dimension."""
    while graph.types[operand.value].shape and row_loop(operand, 0, width) == loop:
        yield operand.value
        maker = makers.get(operand.value)
        if not isinstance(maker, Compute) or maker.reducer or not maker.operands:
            return
        operand = max(maker.operands, key=lambda o: graph.types[o.value].elements)
        width, loop = maker.parallel, 0


def is_product(node: Node) -> bool:
    """Whether a node is a contraction."""
    return isinstance(node, Compute) and node.is_contraction


def counts(node: Compute, loop: int) -> bool:
    """Whether the node asks for the coordinate of a loop."""
    return node.expr.counts(loop) or (node.post is not None and node.post.counts(loop))


def row_dimension(node: Node, dims: Mapping[str, int], graph: Graph) -> int | None:
    """The dimension of a node's result whose every row needs just that row of what it reads of a stretch; None: there is
    none."""
    if node.guard is not None:
        return None
    if isinstance(node, Reshape):
        return _reshaped(graph.types[node.input].shape, graph.types[node.output].shape, dims[node.input])
    if isinstance(node, Join):
        ways = {dims.get(part) for part in node.parts}
        return ways.pop() if len(ways) == 1 and node.axis not in ways else None
    return _read_along(node, dims, graph) if isinstance(node, Compute | View) else None


def _read_along(node: Compute | View, dims: Mapping[str, int], graph: Graph) -> int | None:
    width = len(graph.types[node.output].shape)
    found = {row_loop(o, dims[o.value], width) for o in operands_of(node) if o.value in dims}
    loop = found.pop()
    counted = isinstance(node, Compute) and counts(node, loop)
    return None if found or loop < 0 or counted else loop


def _reshaped(old: tuple[int, ...], new: tuple[int, ...], dim: int) -> int | None:
    """Where the rows of a reshaped value lie, if they are still rows."""
    return next((d for d, n in enumerate(new) if n == old[dim] and prod(new[:d]) == prod(old[:dim])), None)


def row_loop(operand: Operand, dim: int, width: int) -> int:
    """The loop among the first ``width`` that walks over dimension ``dim`` step by step, and over no other; -1: none does."""
    loop = operand.access.plain(dim)
    return loop if loop is not None and loop < width and operand.access.dims(loop) == (dim,) else -1
