"""The text form: a graph as structured text that reads back as an equal graph (E1).

::

    text    = ['takt' 'text' '1'] 'graph' STRING '{' line* '}' ('array' DIGEST '=' BASE64 ';')*
    line    = 'meta' STRING STRING | 'input' STRING type | 'output' STRING ['along' int 'by' STRING]
            | 'const' STRING type '=' (DIGEST | '[' literal,* ']')
            | 'state' STRING type 'update' STRING 'initial' (DIGEST | '[' literal,* ']')
            | 'value' STRING type '=' node
    node    = kind STRING 'of' '[' STRING,* ']' [guard] [part] body     # the node's name, its source operations
    guard   = ('when' | 'unless') STRING                         # the condition under which it is executed
    part    = ('strip' | 'group' | 'band') int 'from' STRING     # which part of the operation with that output
    body    = compute: 'over' '[' int,* ']' ['reduce' reducer 'over' '[' int,* ']'] read* 'expr' steps ['post' steps]
            | view: read | reshape: STRING | join: int STRING* | merge: (STRING [guard])*
            | gather: 'over' '[' int,* ']' read ('none' | read)*
            | scatter: 'over' '[' int,* ']' STRING 'at' '[' affine,* ']' ('none' | read)* (reducer | 'set') read
            | sort: STRING 'keep' int
    read    = 'read' STRING '[' affine,* ']' ['fill' literal]
    affine  = a sum of terms such as 2*l0 + l3 - 1                # l0 is loop 0
    steps   = '(' step;* ')'     step = op (int | literal)* ':' type

Constants of at most eight elements stand in their line (longer ones may, when written by hand); of others the SHA-256 of
their type, shape and bytes does. The bytes follow the graph, or ``parse`` takes the arrays from a mapping (``blobs`` makes
it). Strings are JSON strings, floats are Python's shortest exact form; ``#`` begins a comment.
"""

from __future__ import annotations

import hashlib
import json
from base64 import encodebytes
from collections.abc import Iterator
from typing import Any

import numpy as np

from compiler.ir.access import Access
from compiler.ir.expr import Expr, Step
from compiler.ir.graph import (
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
    View,
)

VERSION = "1"  # of the format, in the first line
INLINE = 8  # elements up to which a constant is written out
Array = np.ndarray[Any, Any]


def digest(array: Array) -> str:
    """What names an array: type, shape and bytes together."""
    named = hashlib.sha256(f"{array.dtype.str}{list(array.shape)}".encode())
    named.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)  # as it lies: a copy takes as long again
    return named.hexdigest()


def blobs(graph: Graph) -> dict[str, Array]:
    """The arrays that the text names by digest."""
    arrays = [a for a in graph.constants.values() if not _is_short(a)] + [s.initial for s in graph.states]
    return {digest(a): a for a in arrays}


def to_text(graph: Graph) -> str:
    """The graph as text, the same for equal graphs; the arrays of ``blobs`` by their digests. Kept ranges are of such texts."""
    return "\n".join(_lines(graph)) + "\n"


def file_text(graph: Graph, *, arrays: bool = True) -> Iterator[str]:
    """What a file of the text form holds, in parts: the version, the graph, and (but for ``arrays``) all ``blobs`` behind it."""
    yield f"takt text {VERSION}\n{to_text(graph)}"
    for key, array in blobs(graph).items() if arrays else ():
        data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        yield f"\narray {key} =\n{encodebytes(data).decode()};\n"


def _is_short(array: Array) -> bool:
    """Whether a constant is written out: few elements, none of them a NaN with bits that "nan" does not say."""
    if array.size > INLINE:
        return False
    said = [value if value == value else np.nan for value in array.reshape(-1).tolist()]
    return np.array(said, array.dtype).tobytes() == array.tobytes()


def _lines(graph: Graph) -> Iterator[str]:
    yield f"graph {_quote(graph.name)} {{"
    for key in sorted(graph.metadata):
        yield f"  meta {_quote(key)} {_quote(graph.metadata[key])}"
    for name in graph.inputs:
        yield f"  input {_quote(name)} {graph.types[name]}"
    for name, array in graph.constants.items():
        shown = _inline(array) if _is_short(array) else digest(array)
        yield f"  const {_quote(name)} {graph.types[name]} = {shown}"
    for state in graph.states:
        kind = graph.types[state.input]
        yield f"  state {_quote(state.input)} {kind} update {_quote(state.update)} initial {digest(state.initial)}"
    for node in graph.nodes:
        yield f"  value {_quote(node.output)} {graph.types[node.output]} = {_node(node)}"
    for name in graph.outputs:
        yield f"  output {_quote(name)}{_length(graph, name)}"
    yield "}"


def _length(graph: Graph, name: str) -> str:
    axis, length = graph.lengths.get(name, (0, ""))
    return f" along {axis} by {_quote(length)}" if length else ""


def _quote(text: str) -> str:
    return json.dumps(text)


def _inline(array: Array) -> str:
    return "[" + ", ".join(_literal(v) for v in array.reshape(-1).tolist()) + "]"


def _literal(value: float) -> str:
    return repr(int(value) if isinstance(value, bool) else value)


def _node(node: Node) -> str:
    head = f"{type(node).__name__.lower()} {_quote(node.name)} of [{', '.join(map(_quote, node.source))}]"
    return " ".join((head + _guard(node.guard) + _part(node.part), *_body(node)))


def _guard(guard: Guard | None) -> str:
    return "" if guard is None else f" {'when' if guard.holds else 'unless'} {_quote(guard.value)}"


def _part(part: Part | None) -> str:
    return "" if part is None else f" {part.kind} {part.number} from {_quote(part.whole)}"


def _body(node: Node) -> Iterator[str]:
    if isinstance(node, Compute):
        yield from _compute(node)
    elif isinstance(node, View):
        yield _read(node.operand)
    elif isinstance(node, Reshape):
        yield _quote(node.input)
    elif isinstance(node, Join):
        yield " ".join((str(node.axis), *map(_quote, node.parts)))
    elif isinstance(node, Merge):
        yield from (_quote(value) + _guard(guard) for guard, value in node.parts)
    elif isinstance(node, Gather):
        yield f"over {list(node.loops)}"
        yield _read(node.data)
        yield from _indices(node.indices)
    elif isinstance(node, Scatter):
        yield f"over {list(node.loops)} {_quote(node.data)} at [{', '.join(affine(node.target))}]"
        yield from _indices(node.indices)
        yield f"{node.reducer or 'set'} {_read(node.update)}"
    elif isinstance(node, Sort):
        yield f"{_quote(node.input)} keep {node.keep}"


def _indices(indices: tuple[Operand | None, ...]) -> Iterator[str]:
    return ("none" if index is None else _read(index) for index in indices)


def _compute(node: Compute) -> Iterator[str]:
    yield f"over {list(node.loops[: node.parallel])}"
    if node.reducer is not None:
        yield f"reduce {node.reducer} over {list(node.loops[node.parallel :])}"
    for operand in node.operands:
        yield _read(operand)
    yield f"expr {_steps(node.expr)}"
    if node.post is not None:
        yield f"post {_steps(node.post)}"


def _read(operand: Operand) -> str:
    fill = "" if operand.fill is None else f" fill {_literal(operand.fill)}"
    return f"read {_quote(operand.value)} [{', '.join(affine(operand.access))}]{fill}"


def affine(access: Access) -> list[str]:
    """Each coordinate as a sum of loops."""
    rows = []
    for j, offset in enumerate(access.offset):
        terms = [_term(access.matrix[j][i], f"l{i}") for i in access.loops(j)]
        if offset or not terms:
            terms.append(("-" if offset < 0 else "+", str(abs(offset))))
        (sign, first), *others = terms
        rows.append(("-" if sign == "-" else "") + first + "".join(f" {sign} {text}" for sign, text in others))
    return rows


def _term(factor: int, loop: str) -> tuple[str, str]:
    """A loop times a number: its sign, and the rest."""
    return "-" if factor < 0 else "+", loop if abs(factor) == 1 else f"{abs(factor)}*{loop}"


def _steps(expr: Expr) -> str:
    return "(" + "; ".join(_step(step) for step in expr.steps) + ")"


def _step(step: Step) -> str:
    words = [step.op, *map(str, step.args)]
    if step.imm is not None:
        words.append(_literal(step.imm))
    return f"{' '.join(words)} : {step.dtype.value}"
