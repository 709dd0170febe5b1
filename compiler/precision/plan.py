"""Which values are stored how, and in what numbers every contraction multiplies.

Values that are the same elements under another name (views, reshapes, joins, gathers, windows of which only the largest
element is taken) share one storage; such a group is a component.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from compiler.ir import Compute, DType, Gather, Graph, Join, Merge, Node, Operand, Reshape, View, operands_of, reads_of
from compiler.precision.caches import cache_writes
from compiler.precision.encoding import Encoding, Storage

STATIC, ROW, HALF, FLOAT = "static", "row", "half", "float"
BEHIND = "behind"  # read by what follows the sum of a product: a residual, fetched while the planes multiply
HALF_LIMIT = 60_000.0  # float16 ends at 65,504; what comes nearer stays float32
Range = tuple[float, float]


@dataclass(frozen=True)
class Plan:
    """``storage``: by value (none: as it is). ``modes``: by a contraction's output, one of the words above. ``copies``:
    encodings of values that stay floats but are multiplied as codes too. ``half``: what ``HALF`` contractions multiply.
    ``tables``: large constants that are gathered are codes."""

    storage: Mapping[str, Storage] = field(default_factory=dict)
    modes: Mapping[str, str] = field(default_factory=dict)
    copies: Mapping[str, Encoding] = field(default_factory=dict)
    half: DType = DType.F16
    tables: bool = False


@dataclass
class Component:
    """Values that share a storage, and how they are read: by factors in a mode, ``BEHIND`` a sum, or (``"other"``) in other
    expressions."""

    members: list[str] = field(default_factory=list)
    readers: set[str] = field(default_factory=set)
    fixed: bool = False  # an output of the graph or a variable: it stays what it is
    plain_zero: bool = False  # a reader cannot correct for a zero point


def is_float_contraction(node: Node) -> bool:
    return isinstance(node, Compute) and node.is_contraction and all(s.dtype == DType.F32 for s in node.expr.steps)


def factors(node: Compute, graph: Graph) -> tuple[int, int | None]:
    """Positions of the moving factor and of the constant one (None: both come at run time)."""
    known = [node.operands[i].value in graph.constants for i in (0, 1)]
    if known == [True, False]:
        return 1, 0
    return 0, 1 if known[1] else None


def has_codes(node: Compute, graph: Graph) -> bool:
    """Whether one factor moves by constant weights: what an unrolled layer multiplies with its first state may be known too."""
    moving, constant = factors(node, graph)
    return constant is not None and node.operands[moving].value not in graph.constants


def is_largest(node: Node) -> bool:
    """A reduction to the largest element as it is: codes keep the order, so it may run on codes."""
    return isinstance(node, Compute) and node.reducer == "max" and node.expr.is_identity and node.post is None


def moved(node: Node) -> tuple[str, ...]:
    """Values whose elements the node passes on unchanged."""
    if isinstance(node, View):
        return (node.operand.value,)
    if isinstance(node, Reshape):
        return (node.input,)
    if isinstance(node, Join):
        return node.parts
    if isinstance(node, Merge):
        return tuple(value for _, value in node.parts)
    if isinstance(node, Gather):
        return (node.data.value,)
    if isinstance(node, Compute) and is_largest(node):
        return (node.operands[0].value,)
    return ()


def components(graph: Graph, modes: Mapping[str, str]) -> dict[str, Component]:
    """The component of every float32 value that is not a constant."""
    by_value, grown = _joined(graph), cache_writes(graph)
    states = {v for s in graph.states if s.update not in grown for v in (s.input, s.update)}
    _fix((*graph.outputs, *states), by_value)
    for node in filter(lambda n: n.output not in grown, graph.nodes):
        _read(node, graph, modes, by_value)
    return by_value


def _joined(graph: Graph) -> dict[str, Component]:
    """Values by what moves the elements of one into another."""
    roots = {v: v for v, t in graph.types.items() if t.dtype == DType.F32 and v not in graph.constants}

    def root(value: str) -> str:
        while roots[value] != value:
            roots[value] = roots[roots[value]]
            value = roots[value]
        return value

    grown = cache_writes(graph)
    for node in graph.nodes:
        passed = reads_of(node) if node.output in grown else moved(node)  # places are whole numbers: they have no root
        for value in roots.keys() & {*passed} if node.output in roots else ():
            roots[root(value)] = root(node.output)
    found: dict[str, Component] = {}
    for value in roots:
        found.setdefault(root(value), Component()).members.append(value)
    return {value: found[root(value)] for value in roots}


def _fix(values: Iterable[str], by_value: Mapping[str, Component]) -> None:
    for value in values:
        if value in by_value:
            by_value[value].fixed = True


def _read(node: Node, graph: Graph, modes: Mapping[str, str], by_value: Mapping[str, Component]) -> None:
    passed = moved(node)
    if not passed and not isinstance(node, Compute):  # a primitive that this module does not know: all stays plain
        _fix((*reads_of(node), node.output), by_value)
        return
    mode = modes.get(node.output, FLOAT) if isinstance(node, Compute) else FLOAT
    for position, operand in enumerate(operands_of(node)):
        component = by_value.get(operand.value)
        if component is None or _passes(node, operand, passed):
            continue
        if operand.fill not in (None, 0.0):
            component.fixed = True
            continue
        component.readers.add(_reader(node, position, mode))
        if mode == STATIC and position < 2 and isinstance(node, Compute):
            component.plain_zero |= not correctable(node, graph)


def _reader(node: Node, position: int, mode: str) -> str:
    """How an operand is read: as a factor in a mode, behind a sum, or otherwise."""
    if not isinstance(node, Compute) or mode == FLOAT:
        return "other"
    return mode if position < 2 else BEHIND if node.is_contraction else "other"


def _passes(node: Node, operand: Operand, passed: tuple[str, ...]) -> bool:
    """Whether a node passes an operand on as it is, whatever its storage."""
    return operand.value in passed and (operand.fill in (None, 0.0) or is_largest(node))


def correctable(node: Compute, graph: Graph) -> bool:
    """Whether a zero point of the moving factor is a constant per column: each weight is met exactly once per result."""
    _, constant = factors(node, graph)
    if constant is None:
        return False
    operand, wide = node.operands[constant], [i for i in node.inner if node.loops[i] > 1]
    met: list[int] = []
    for j, n in enumerate(graph.types[operand.value].shape):
        inner = [i for i in operand.access.loops(j) if i in wide]
        if any(abs(operand.access.matrix[j][i]) != 1 or node.loops[i] != n for i in inner) or len(inner) > 1:
            return False
        met += inner
    return sorted(met) == wide


def encoding(low: float, high: float, *, plain_zero: bool = False) -> Encoding:
    """Codes for values between ``low`` and ``high``: u8 from 0 on, u8 with a zero point for lopsided ranges, else i8."""
    low, high = min(low, 0.0), max(high, 0.0)
    widest = max(-low, high)
    if widest == 0.0 or not np.isfinite(widest):
        return Encoding(DType.I8, 1.0)
    if low == 0.0:
        return Encoding(DType.U8, _scale(high, 255))
    if not plain_zero and high - low < 1.5 * widest:
        scale = _scale(high - low, 255)
        return Encoding(DType.U8, scale, int(np.rint(np.float32(-low) / np.float32(scale))))
    return Encoding(DType.I8, _scale(widest, 127))


def _scale(span: float, codes: int) -> float:
    """At least the smallest float32 whose inverse is one too."""
    return float(max(np.float32(span) / np.float32(codes), np.float32(2.0**-120)))


def integer_plan(graph: Graph, modes: Mapping[str, str], ranges: Mapping[str, Range]) -> Plan:
    """int8 between layers wherever a reader multiplies codes; float16 where only float16 products read."""
    found = components(graph, modes)
    storage: dict[str, Storage] = {}
    copies: dict[str, Encoding] = {}
    for component in {id(c): c for c in found.values()}.values():
        kind = _integer_storage(component, ranges, graph)
        storage.update(dict.fromkeys(component.members, kind) if kind is not None else {})
        if kind is None and STATIC in component.readers:
            copies.update(dict.fromkeys(component.members, group_encoding(component, ranges)))
    return Plan(storage, modes, copies, tables=True)


def _integer_storage(component: Component, ranges: Mapping[str, Range], graph: Graph) -> Storage:
    """An input of the graph that expressions read too stays as the host gives it: a recurrent state would gather errors."""
    if component.fixed or not component.readers:
        return None
    if component.readers not in ({STATIC}, {HALF}) and not set(graph.inputs).isdisjoint(component.members):
        return None
    if STATIC in component.readers:
        return group_encoding(component, ranges)
    half = HALF in component.readers and component.readers <= {HALF, BEHIND, "other"}
    return DType.F16 if (half or component.readers == {BEHIND}) and _fits_half(component, ranges) else None


def group_encoding(component: Component, ranges: Mapping[str, Range]) -> Encoding:
    """One encoding for all members of a component."""
    known = [ranges[v] for v in component.members if v in ranges]
    low, high = min((r[0] for r in known), default=0.0), max((r[1] for r in known), default=0.0)
    return encoding(low, high, plain_zero=component.plain_zero)


def half_plan(graph: Graph, ranges: Mapping[str, Range], half: DType) -> Plan:
    """bfloat16 everywhere, which has float32's range; float16 but where the calibration came near its limits."""
    wide = half == DType.BF16
    modes = {
        n.output: HALF
        for n in graph.nodes
        if is_float_contraction(n) and (wide or all(_half_factor(v, graph, ranges) for v in reads_of(n)[:2]))
    }
    storage: dict[str, Storage] = {}
    for component in {id(c): c for c in components(graph, modes).values()}.values():
        if not component.fixed and (wide or _fits_half(component, ranges)):
            storage.update(dict.fromkeys(component.members, half))
    return Plan(storage, modes, half=half)


def _fits_half(component: Component, ranges: Mapping[str, Range]) -> bool:
    return all(fits_half(ranges.get(v)) for v in component.members)


def fits_half(known: Range | None) -> bool:
    return known is not None and max(-known[0], known[1]) < HALF_LIMIT


def _half_factor(value: str, graph: Graph, ranges: Mapping[str, Range]) -> bool:
    if value in graph.constants:
        array = graph.constants[value]
        return array.size == 0 or bool(np.abs(array).max() < HALF_LIMIT)
    return fits_half(ranges.get(value))
