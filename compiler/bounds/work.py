"""The fewest unit-cycles of an operation over all its legal forms.

A form puts one operation on one kind of unit: a contraction on the planes (with either operand in the plane, and any part
of its epilogue behind it) or on the vector unit. What the planes need is in ``planes``. Elsewhere elements are counted at the
rate of the lanes, since an instruction's points fill them whatever their shape, and in lines at the rate of the ports.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil, prod

from compiler.bounds.lookups import mover_cycles
from compiler.bounds.planes import beats, by_sums, ends, grid, one_sided
from compiler.bounds.shape import Box, inside_share, read_box, read_operands, unmixed
from compiler.costs import alu_passes, epilogue_stages, has_plane_types, product_shape, vector_stages
from compiler.ir import Compute, Gather, Graph, Node, Operand, Reshape, Scatter, Sort, View
from compiler.isa import Machine
from compiler.isa.timing import ceil_div, lanes, sort_run, sort_stages

Work = dict[str, Fraction]  # unit class -> unit-cycles
SCHEDULED = ("external", "weights", "matrix", "vector", "move")


def forms(
    node: Node, graph: Graph, machine: Machine, box: Box | None = None, loaded: Collection[int] = ()
) -> list[Work]:
    """All legal forms of an operation for ``box`` points of its output; one empty form when it needs no unit.

    With one form only, its cycles are whole. ``loaded``: factors that may be in the planes for another operation.
    """
    found = _forms(node, graph, machine, box, loaded)
    return found if len(found) > 1 else [{unit: Fraction(ceil(cycles)) for unit, cycles in found[0].items()}]


def sparse(node: Compute, graph: Graph, machine: Machine, loaded: Collection[int] = ()) -> list[Work]:
    """Forms of all points of an operation, from counts that hold in proportion for any part of them."""
    box = node.loops[: node.parallel]
    if node.reducer is None and node.expr.is_identity and node.post is None:
        return [{}]
    found = [on_vector(node, graph, machine, box)] if machine.vector.instances else []
    if has_plane_types(node, graph, machine):
        found += _planes(node, graph, machine, box, loaded, part=True)
    return found


def _forms(node: Node, graph: Graph, machine: Machine, box: Box | None, loaded: Collection[int]) -> list[Work]:
    if isinstance(node, Gather):
        return [{"move": mover_cycles(node, graph, machine, box)}]
    if isinstance(node, Scatter | Sort):
        return [_ordered(node, graph, machine)]
    if not isinstance(node, Compute):
        return [{}]
    if node.reducer is None and node.expr.is_identity and node.post is None:
        return [{}]  # a copy, which may be a name for the same memory
    found = [on_vector(node, graph, machine, box)] if machine.vector.instances else []
    if has_plane_types(node, graph, machine):
        found += _planes(node, graph, machine, box, loaded)
    return found


def _ordered(node: Scatter | Sort, graph: Graph, machine: Machine) -> Work:
    """An element per cycle where results build on each other; every number through the first stages of its sort, in as many
    lanes as it takes."""
    if isinstance(node, Scatter):
        return {"move": Fraction(prod(node.loops) if node.reducer else 0)}
    kind = graph.types[node.input]
    run = min(kind.shape[-1], sort_run(machine))
    wide = max(1, lanes(machine, kind.dtype.size))
    return {"vector": Fraction(kind.elements * sort_stages(run // 2 + 1), wide)}


def loaded_before(nodes: Sequence[Node], graph: Graph, machine: Machine) -> dict[str, list[int]]:
    """By output of an operation: factors that an earlier one may have left in the planes, under whatever name."""
    makers = {node.output: node for node in graph.nodes}
    seen: set[str] = set()
    found: dict[str, list[int]] = {}
    for node in nodes:
        if isinstance(node, Compute) and has_plane_types(node, graph, machine):
            factors = [_original(o.value, makers) for o in node.operands[:2]]
            found[node.output] = [side for side, value in enumerate(factors) if value in seen]
            seen.update(factors)
    return found


def _original(value: str, makers: Mapping[str, Node]) -> str:
    """What a value may be another name for."""
    while (node := makers.get(value)) is not None:
        if isinstance(node, Reshape):
            value = node.input
        elif isinstance(node, View):
            value = node.operand.value
        elif isinstance(node, Compute) and node.reducer is None and node.post is None and node.expr.is_identity:
            value = node.operands[0].value
        else:
            break
    return value


def vector_lanes(node: Compute, graph: Graph, machine: Machine) -> int:
    """Elements per cycle: wide ones take two lanes. The narrowest reading, which can only lower the bound."""
    steps = (*node.expr.steps, *(node.post.steps if node.post else ()))
    size = min([graph.types[node.output].dtype.size, *(step.dtype.size for step in steps)])
    return lanes(machine, size)


def on_vector(node: Compute, graph: Graph, machine: Machine, box: Box | None) -> Work:
    """What an operation takes of the vector units."""
    points = prod(box) if box is not None else node.points
    body, post = vector_stages(node, machine)
    width = vector_lanes(node, graph, machine)
    filled, ended = _data_share(node, graph, box) * points * node.reduction / width, Fraction(points, width)
    if box is None and not has_plane_types(node, graph, machine):  # else some may be made there, and parts add up
        filled, ended = Fraction(ceil(filled)), Fraction(ceil(ended))
    cycles = filled * body + ended * post
    if box is None and not node.is_contraction:
        cycles = max(cycles, _fetches(read_operands(node), node, graph, machine, "abcd", machine.vector.ports))
    return {"vector": cycles}


def _data_share(node: Compute, graph: Graph, box: Box | None) -> Fraction:
    """At least this part of what a reduction goes over is data; windows at a border may be cut to it."""
    padded = [o for o in read_operands(node) if o.fill is not None]
    if node.reducer is None or not padded:
        return Fraction(1)
    if box is not None:
        return Fraction(0)
    return max(Fraction(0), 1 - sum((1 - inside_share(o, graph, node.loops) for o in padded), Fraction(0)))


def _fetches(
    operands: list[Operand], node: Compute, graph: Graph, machine: Machine, names: str, ports: Mapping[str, int]
) -> Fraction:
    """Cycles in which the operands' distinct elements pass the ports ``names``, and the result its own."""
    sizes = [
        prod(read_box(o, graph, node.loops, node.loops)) * graph.types[o.value].dtype.size
        for o in operands
        if o.fill is None and unmixed(o)
    ]
    rates = sorted((ports[name] * machine.line_bytes for name in names if ports.get(name)), reverse=True)
    cycles = Fraction(graph.types[node.output].bytes, max(1, ports["out"]) * machine.line_bytes)
    if sizes and rates:
        cycles = max(cycles, Fraction(max(sizes), rates[0]), Fraction(sum(sizes), sum(rates[: len(operands)])))
    return cycles


def _planes(
    node: Compute, graph: Graph, machine: Machine, box: Box | None, loaded: Collection[int], part: bool = False
) -> Iterator[Work]:
    """Each side alone, and the mixture of both from which on the count over both decides; each with any part of the
    epilogue behind the planes. ``part``: only what holds in proportion for a part of the outputs."""
    g = grid(node, graph, box)
    tile = machine.matrix.tiles[graph.types[node.operands[0].value].dtype.value]
    post, last = alu_passes(node.post, machine), epilogue_stages(node.post, machine)
    outputs = g.batch * g.count * g.across
    width = vector_lanes(node, graph, machine)
    extra = [o for o in read_operands(node) if o not in node.operands[:2]]
    fetches = _fetches(extra, node, graph, machine, "bcd", machine.matrix.ports) if box is None else Fraction(0)
    ended = ends(g, tile[1])
    alone = [one_sided(g, product_shape(node, side, box).columns, *tile) for side in (0, 1)]
    loads = _loads(node, graph, machine, box, loaded)
    for cycles, load in _mixed(alone, loads, Fraction(0) if part else beats(g, *tile)):
        for behind in range(1, last + 1):
            # each pass that ends a sum takes `behind` cycles a row, which pays for that many ALU stages
            matrix = cycles + (behind - 1) * ended
            rest = ceil_div(max(0, post - behind * machine.matrix.alus), machine.vector.alus)
            work = {"matrix": max(matrix, fetches) if behind == last else matrix}
            yield work | load | {"vector": Fraction(outputs * rest, width)}


def _mixed(alone: list[Fraction], loads: list[Work], both: Fraction) -> list[tuple[Fraction, Work]]:
    """Cycles of the planes and of the ports: with each side ``alone`` stationary, and with as much of one side that the count
    over ``both`` decides."""
    ways = [(max(cycles, both), load) for cycles, load in zip(alone, loads, strict=True)]
    if min(alone) < both < max(alone):
        share = (both - alone[1]) / (alone[0] - alone[1])
        ways.append((both, {u: share * w + (1 - share) * loads[1][u] for u, w in loads[0].items()}))
    return ways


def sums_decide(node: Compute, graph: Graph, tile: tuple[int, int]) -> bool:
    """Whether no form of a contraction on planes is counted by anything but its sums."""
    g = grid(node, graph)
    alone = [one_sided(g, product_shape(node, side).columns, *tile) for side in (0, 1)]
    return max(beats(g, *tile), min(alone)) == by_sums(g, *tile)


def _loads(node: Compute, graph: Graph, machine: Machine, box: Box | None, loaded: Collection[int]) -> list[Work]:
    """By side that is stationary the cycles of the weight ports, and of the external one; ``loaded``: sides that are in the
    planes already."""
    share = min(inside_share(o, graph, node.loops) for o in node.operands[:2])
    found: list[Work] = []
    for side, operand in enumerate(node.operands[:2]):
        batch, _, columns, depth = product_shape(node, side, box)
        size = batch * depth * columns * graph.types[operand.value].dtype.size
        taken = side not in loaded and (box is None or share == 1)
        found.append({"weights": Fraction(size, machine.weights.bytes_per_cycle) * share if taken else Fraction(0)})
        if machine.external.all_weights and box is None:
            found[-1]["external"] = _fetched(node, graph, machine) * share
    return found


def _fetched(node: Compute, graph: Graph, machine: Machine) -> Fraction:
    """Cycles of the external port for a constant factor that planes take from there only; charged to its first reader."""
    sizes = [graph.types[o.value].bytes for o in node.operands[:2] if _is_first_reader(node, o, graph)]
    return Fraction(sum(sizes), machine.external.bytes_per_cycle)


def _is_first_reader(node: Compute, o: Operand, graph: Graph) -> bool:
    """Whether a node is the first that reads a constant, and reads all of it."""
    if o.value not in graph.constants or o.fill is not None or not unmixed(o):
        return False
    if read_box(o, graph, node.loops, node.loops) != graph.types[o.value].shape:
        return False
    readers = (n for n in graph.nodes if isinstance(n, Compute) and any(p.value == o.value for p in n.operands))
    return next(readers) is node
