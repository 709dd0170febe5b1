"""Reading the text form that ``compiler.ir.text`` writes; its grammar is documented there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from compiler.errors import ModelError
from compiler.ir.access import Access
from compiler.ir.expr import Expr, Step
from compiler.ir.graph import (
    PART_KINDS,
    Compute,
    Gather,
    Graph,
    Guard,
    Join,
    Merge,
    Node,
    Operand,
    Part,
    Reshape,
    Scatter,
    Sort,
    State,
    View,
)
from compiler.ir.text import VERSION, digest
from compiler.ir.tokens import Reader, meant
from compiler.ir.types import TensorType
from compiler.numerics.reduce import REDUCER_CODES
from compiler.numerics.scalar import CODES

Array = np.ndarray[Any, Any]
_LINES = ("meta", "input", "const", "state", "value", "output")
_PRIMITIVES = ("compute", "view", "reshape", "join", "merge", "gather", "scatter", "sort")


def parse(text: str, arrays: Mapping[str, Array] | None = None) -> Graph:
    """The graph of a text form; ``arrays`` holds by digest what the text does not write out. ``ModelError`` if it is wrong."""
    return parse_lines(text, arrays)[0]


def parse_lines(text: str, arrays: Mapping[str, Array] | None = None) -> tuple[Graph, dict[str, int]]:
    """The graph, and the number of the line that first defines each value and each node (of the last one by no name)."""
    reader = Reader(text)
    if reader.accept("takt"):
        reader.next("text")
        if reader.next() != VERSION:
            raise reader.wrong(f"this is another version of the text form; version {VERSION} is known")
    reader.next("graph")
    parts = _Parts(reader.string(), dict(arrays or {}))
    reader.next("{")
    while not reader.accept("}"):
        _line(reader, parts)
    while reader.accept("array"):
        parts.read_array(reader)
    if reader.peek():
        reader.next()
        raise reader.wrong("nothing may follow the graph but arrays")
    constants = {name: parts.array(name, found) for name, found in parts.constants.items()}
    states = tuple(State(name, update, parts.array(name, initial)) for name, update, initial in parts.states)
    graph = Graph(
        parts.name,
        tuple(parts.inputs),
        tuple(parts.outputs),
        parts.types,
        constants,
        tuple(parts.nodes),
        states,
        parts.metadata,
        parts.lengths,
    )
    return graph, parts.places | {"": reader.line}


class _Parts:
    def __init__(self, name: str, arrays: dict[str, Array]) -> None:
        self.name, self.arrays = name, arrays
        self.inputs: list[str] = []
        self.outputs: list[str] = []
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, Array | str] = {}  # written out, or by digest
        self.nodes: list[Node] = []
        self.states: list[tuple[str, str, Array | str]] = []
        self.lengths: dict[str, tuple[int, str]] = {}
        self.metadata: dict[str, str] = {}
        self.places: dict[str, int] = {}
        self.named: dict[str, TensorType] = {}  # what arrays that are named by digest have to be

    def read_array(self, reader: Reader) -> None:
        """One array behind the graph: ``DIGEST = BASE64 ;``, its elements in row-major order, little-endian."""
        key = reader.next()
        kind = self.named.get(key)
        if kind is None:
            raise reader.wrong(f"no constant and no state names the array {key[:40]!r}{meant(key, self.named)}")
        reader.next("=")
        data = reader.base64()
        try:
            array = np.frombuffer(data, kind.dtype.numpy.newbyteorder("<")).astype(kind.dtype.numpy).reshape(kind.shape)
        except ValueError:
            raise reader.wrong(f"what follows are {len(data)} bytes, which are no {kind}") from None
        if digest(array) != key:
            raise reader.wrong("the array was altered: what follows are not the bytes of its digest")
        self.arrays[key] = array
        reader.next(";")

    def array(self, name: str, found: Array | str) -> Array:
        """The elements of a constant or state that are written out or kept apart."""
        if not isinstance(found, str):
            return found
        if found not in self.arrays:
            raise self.wrong(
                name, f"the array {found[:16]}... is not given, neither behind the graph nor beside the file"
            )
        array, kind = self.arrays[found], self.types[name]
        if (array.dtype, array.shape) != (kind.dtype.numpy, kind.shape) or digest(array) != found:
            raise self.wrong(name, f"the array {found[:16]}... is another one, or no {kind}")
        return array

    def wrong(self, name: str, message: str) -> ModelError:
        return ModelError(f"Line {self.places[name]} of the text form: {message}.")


def _line(reader: Reader, parts: _Parts) -> None:
    word = reader.next()
    if word not in _LINES:
        raise reader.wrong(f"a line cannot begin with {word[:40]!r}{meant(word, _LINES)}")
    if word == "meta":
        key = reader.string()
        parts.places.setdefault(f"meta {key}", reader.line)
        parts.metadata[key] = reader.string()
        return
    name, line = reader.string(), reader.line
    parts.places.setdefault(name, line)
    if word == "output":
        parts.outputs.append(name)
        if reader.accept("along"):
            axis = reader.integer()
            reader.next("by")
            parts.lengths[name] = (axis, reader.string())
        return
    kind = reader.type()
    parts.types[name] = kind
    if word == "input":
        parts.inputs.append(name)
    elif word == "const":
        reader.next("=")
        parts.constants[name] = _constant(reader, parts, kind)
    elif word == "state":
        reader.next("update")
        update = reader.string()
        reader.next("initial")
        parts.states.append((name, update, _constant(reader, parts, kind)))
    else:
        reader.next("=")
        parts.nodes.append(_node(reader, name, kind))
        parts.places.setdefault(parts.nodes[-1].name, line)


def _constant(reader: Reader, parts: _Parts, kind: TensorType) -> Array | str:
    if reader.peek() != "[":
        key = reader.next()
        if not re.fullmatch("[0-9a-f]{64}", key):
            raise reader.wrong(f"{key[:40]!r} is neither a list of numbers nor the digest of an array")
        parts.named[key] = kind
        return key
    reader.next("[")
    values = []
    while not reader.accept("]"):
        values.append(reader.literal())
        reader.accept(",")
    if len(values) != kind.elements:
        raise reader.wrong(f"{len(values)} values for {kind}")
    if not kind.dtype.is_float and any(isinstance(value, float) for value in values):
        raise reader.wrong(f"a value is no {kind.dtype.value}")
    try:
        with np.errstate(over="ignore"):
            return np.array(values, kind.dtype.numpy).reshape(kind.shape)
    except (ValueError, OverflowError):
        raise reader.wrong(f"a value is no {kind.dtype.value}") from None


def _node(reader: Reader, output: str, kind: TensorType) -> Node:
    word, name = reader.next(), reader.string()
    reader.next("of")
    reader.next("[")
    source: list[str] = []
    while not reader.accept("]"):
        source.append(reader.string())
        reader.accept(",")
    common = (name, output, tuple(source))
    guard = _guard(reader)
    part = _part(reader)
    return replace(_primitive(reader, word, common, kind), guard=guard, part=part)


def _guard(reader: Reader) -> Guard | None:
    if reader.peek() not in ("when", "unless"):
        return None
    holds = reader.next() == "when"
    return Guard(reader.string(), holds)


def _part(reader: Reader) -> Part | None:
    if reader.peek() not in PART_KINDS:
        return None
    kind, number = reader.next(), reader.integer()
    reader.next("from")
    return Part(kind, number, reader.string())


def _primitive(reader: Reader, word: str, common: tuple[str, str, tuple[str, ...]], kind: TensorType) -> Node:
    if word == "compute":
        return _compute(reader, common)
    if word == "view":
        return View(*common, _read(reader, len(kind.shape)))
    if word == "reshape":
        return Reshape(*common, reader.string())
    if word == "join":
        axis = reader.integer()
        return Join(*common, reader.strings(), axis)
    if word == "merge":
        parts = []
        while reader.peek().startswith('"'):
            value = reader.string()
            parts.append((_guard(reader), value))
        return Merge(*common, tuple(parts))
    if word == "sort":
        source = reader.string()
        reader.next("keep")
        return Sort(*common, source, reader.integer())
    if word == "scatter":
        return _scatter(reader, common)
    if word != "gather":
        raise reader.wrong(f"{word[:40]!r} is no primitive{meant(word, _PRIMITIVES)}")
    reader.next("over")
    loops = reader.integers()
    data = _read(reader, len(loops))
    return Gather(*common, loops, data, _indices(reader, len(loops)))


def _indices(reader: Reader, loops: int) -> tuple[Operand | None, ...]:
    indices: list[Operand | None] = []
    while reader.peek() in ("none", "read"):
        indices.append(None if reader.accept("none") else _read(reader, loops))
    return tuple(indices)


def _scatter(reader: Reader, common: tuple[str, str, tuple[str, ...]]) -> Scatter:
    reader.next("over")
    loops = reader.integers()
    data = reader.string()
    reader.next("at")
    target = _access(reader, len(loops))
    indices = _indices(reader, len(loops))
    reducer = _reducer(reader, (*REDUCER_CODES, "set"))
    update = _read(reader, len(loops))
    return Scatter(*common, loops, data, target, indices, update, None if reducer == "set" else reducer)


def _compute(reader: Reader, common: tuple[str, str, tuple[str, ...]]) -> Compute:
    reader.next("over")
    parallel = reader.integers()
    reduction: tuple[int, ...] = ()
    reducer = None
    if reader.accept("reduce"):
        reducer = _reducer(reader, REDUCER_CODES)
        reader.next("over")
        reduction = reader.integers()
    loops = parallel + reduction
    operands = []
    while reader.peek() == "read":
        operands.append(_read(reader, len(loops)))
    reader.next("expr")
    expr = _steps(reader)
    post = _steps(reader) if reader.accept("post") else None
    return Compute(*common, loops, len(parallel), tuple(operands), expr, reducer, post)


def _reducer(reader: Reader, known: Iterable[str]) -> str:
    word = reader.next()
    if word not in known:
        raise reader.wrong(f"{word[:40]!r} is no reducer{meant(word, known)}")
    return word


def _read(reader: Reader, loops: int) -> Operand:
    reader.next("read")
    value = reader.string()
    access = _access(reader, loops)
    fill = reader.literal() if reader.accept("fill") else None
    return Operand(value, access, fill)


def _access(reader: Reader, loops: int) -> Access:
    reader.next("[")
    rows, offsets = [], []
    while not reader.accept("]"):
        offset, row = _affine(reader, loops)
        offsets.append(offset)
        rows.append(row)
        reader.accept(",")
    return Access(tuple(offsets), tuple(rows))


def _affine(reader: Reader, loops: int) -> tuple[int, tuple[int, ...]]:
    offset, row = 0, [0] * loops
    while reader.peek() not in (",", "]"):
        sign = 1
        while reader.peek() in ("+", "-"):
            sign = -sign if reader.next() == "-" else sign
        factor = 1
        token = reader.next()
        if re.fullmatch(r"-?\d+", token):
            factor = reader.whole(token)
            if not reader.accept("*"):
                offset += sign * factor
                continue
            token = reader.next()
        if not re.fullmatch(r"l\d+", token) or int(token[1:]) >= loops:
            raise reader.wrong(f"{token!r} is none of its {loops} loops")
        row[int(token[1:])] += sign * factor
    return offset, tuple(row)


def _steps(reader: Reader) -> Expr:
    reader.next("(")
    steps = []
    while not reader.accept(")"):
        op = reader.next()
        if op not in CODES:
            raise reader.wrong(f"{op[:40]!r} is no operator{meant(op, CODES)}")
        numbers: list[int | float] = []
        while not reader.accept(":"):
            numbers.append(reader.literal())
        dtype = reader.dtype()
        if op in ("arg", "const", "index"):
            steps.append(Step(op, (), dtype, numbers[0] if numbers else None))
        elif all(isinstance(n, int) for n in numbers):
            steps.append(Step(op, tuple(map(int, numbers)), dtype))
        else:
            raise reader.wrong(f"{op!r} takes the numbers of steps")
        reader.accept(";")
    return Expr(tuple(steps))
