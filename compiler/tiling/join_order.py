"""The storage order of a concat: that of its largest part, or one with the concat's axis outermost, which suits narrow parts:
of these only a few elements would lie in each line otherwise.
"""

from __future__ import annotations

from math import prod

from compiler.ir import Compute, Join
from compiler.isa import Loop, Machine
from compiler.tiling.place import Place, ordered_strides
from compiler.tiling.readers import Order, fetches
from compiler.tiling.stationary import DataflowSelector

CLEARLY = 1.1  # times the cycles that make one order worse than another


def axis_first(node: Join, order: Order, selector: DataflowSelector, machine: Machine) -> bool:
    """Whether the parts, and who reads the concat, take clearly fewer cycles in ``order`` with the axis outermost: estimated
    from line fetches. Where planes make a part its order is theirs."""
    readers = selector.readers
    made = {n.output: n for n in selector.graph.nodes if isinstance(n, Compute) and n.is_contraction}
    if len(node.parts) == 1 or any(readers.root(part)[0] in made for part in node.parts):
        return False
    first = _turned(order, node.axis)
    if first == order or len(order) == 1:
        return False

    def cycles(some: Order) -> int:
        t = selector.graph.types[node.output]
        home = Place(node.output, t.dtype, t.shape, 0, ordered_strides(t.shape, some, t.dtype.size))
        written = sum(_written(home, selector.graph.types[part].shape, some, machine) for part in node.parts)
        return written + readers.cost(node.output, home, selector.contraction)

    return cycles(first) * CLEARLY < cycles(order)


def _turned(order: Order, axis: int) -> Order:
    return (axis, *(i for i in order if i != axis))


def _written(home: Place, shape: tuple[int, ...], order: Order, machine: Machine) -> int:
    """Cycles of the ports that write a part of that shape."""
    nest = tuple(Loop(shape[i], home.strides[i]) for i in order)
    lines = fetches(home.dtype.size, nest, (), (prod(shape), 1), machine.line_bytes)
    return -(-lines // max(1, machine.vector.ports.get("out", 1)))
