"""Suggested sizes for a model's variable dimensions, and simplified shape formulas. Pure functions."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import floor
from typing import Any

# Parts of names, most specific first, with the size that suits most models with such a dimension.
USUAL: tuple[tuple[str, int], ...] = (
    ("batch", 1),
    ("sequence", 128),
    ("seq", 128),
    ("token", 128),
    ("length", 128),
    ("height", 224),
    ("width", 224),
    ("sample", 16_000),
    ("frame", 100),
    ("time", 100),
)
EXACT = {"n": 1, "b": 1, "h": 224, "w": 224, "t": 100, "s": 128, "l": 128}
IMAGE, CHANNELS = 224, (1, 3, 4)
TEXT, SIGNAL, OTHER = 128, 16_000, 1
CHECKED_TO = 512  # a simplified formula is used only if it gives the same size for every value up to this


def sizes_suggested(inputs: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, int]:
    """Return a suggested size for each variable dimension."""
    return {name: _by_name(name) or _by_place(name, inputs) for name in names}


def names_shown(inputs: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, str]:
    """Return the displayed name of each variable dimension, such as "batch", "axis 2" or "batch of x"."""
    roles = {name: _role(name, inputs) for name in names}
    counts = Counter(role for role, _ in roles.values())
    return {name: f"{role} of {owner}" if owner and counts[role] > 1 else role for name, (role, owner) in roles.items()}


def sizes_text(sizes: Mapping[str, int | Sequence[int]], shown: Mapping[str, str]) -> str:
    """Return sizes as text, such as "batch 1, height 224"; "fixed" if no dimension is variable."""
    texts = [
        f"{shown.get(name, name)} {size if isinstance(size, int) else ' or '.join(map(str, size))}"
        for name, size in sizes.items()
    ]
    return ", ".join(texts) or "fixed"


def axis_of(name: str, inputs: Sequence[Mapping[str, Any]]) -> tuple[str, int] | None:
    """Return the input and axis of an unnamed dimension, such as "x.2"; None for a named dimension."""
    owner, _, axis = name.rpartition(".")
    is_input = any(value["name"] == owner for value in inputs)
    return (owner, int(axis)) if is_input and axis.isascii() and axis.isdigit() else None


def _role(name: str, inputs: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    place = axis_of(name, inputs)
    if place is None:
        return name, ""
    owner, axis = place
    value = next(one for one in inputs if one["name"] == owner)
    shape = value["shape"]
    if axis == 0 and len(shape) > 1:
        return "batch", owner
    if len(shape) == 2 and str(value["dtype"]).startswith("int"):
        return "sequence", owner
    return _image_roles(shape).get(axis, f"axis {axis}"), owner


def _image_roles(shape: Sequence[int | str]) -> dict[int, str]:
    if len(shape) != 4:
        return {}
    if shape[1] in CHANNELS:
        return {2: "height", 3: "width"}
    return {1: "height", 2: "width"} if shape[3] in CHANNELS else {}


def _by_name(name: str) -> int | None:
    plain = name.lower().strip("_")
    if plain in EXACT:
        return EXACT[plain]
    return next((size for part, size in USUAL if part in plain), None)


def _by_place(name: str, inputs: Sequence[Mapping[str, Any]]) -> int:
    # Without a name, the first axis is assumed to be the batch.
    for value in inputs:
        shape = value["shape"]
        if name not in shape:
            continue
        if shape.index(name) == 0 and len(shape) > 1:
            return 1
        if len(shape) == 4:
            return IMAGE if {shape[1], shape[3]} & set(CHANNELS) else OTHER
        if str(value["dtype"]).startswith("int"):
            return TEXT
        return SIGNAL if len(shape) <= 2 else TEXT
    return OTHER


@lru_cache(maxsize=1024)
def formula_simplified(text: str) -> str:
    """Simplify a dimension's formula, such as "floor(floor(height/2 - 1/2)/2) + 1".

    The result is exact for every size up to CHECKED_TO. If there is no simpler formula, the text is returned unchanged.
    """
    names = sorted(set(re.findall(r"[A-Za-z_]\w*", text)) - set(_FUNCTIONS))
    evaluate = _compiled(text, names[0]) if len(names) == 1 and text != names[0] else None
    if evaluate is None:
        return text
    try:
        values = [evaluate(size) for size in range(CHECKED_TO + 1)]
    except (ArithmeticError, ValueError, RecursionError):
        return text
    return _written(names[0], values) or text


def _written(name: str, values: Sequence[Fraction]) -> str:
    rises = [after - before for before, after in pairwise(values)]
    steps = [size for size, rise in enumerate(rises, 1) if rise]
    if not _is_staircase(rises, steps):
        return ""
    k, m = steps[1] - steps[0], rises[steps[0] - 1]
    a = k - steps[0]  # before the first step, floor((0 + a) / k) is 0
    stairs = f"ceil({name} / {k})" if a == k - 1 else f"floor({_sum(name, a)} / {k})"
    inner = name if k == 1 else stairs
    return _plus(f"{m} * {inner}" if m != 1 else inner, values[0])


def _is_staircase(rises: Sequence[Fraction], steps: Sequence[int]) -> bool:
    if len(steps) < 2 or len({rises[size - 1] for size in steps}) > 1:
        return False
    distances = {after - before for before, after in pairwise(steps)}
    return len(distances) == 1 and steps[0] <= distances.pop() and rises[steps[0] - 1].denominator == 1


def _sum(name: str, a: int) -> str:
    return f"({name} + {a})" if a else name


def _plus(form: str, constant: Fraction) -> str:
    return form if constant == 0 else f"{form} {'+' if constant > 0 else '-'} {abs(constant)}"


_OPERATIONS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
}
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "floor": floor,
    "ceil": lambda a: -floor(-a),
    "ceiling": lambda a: -floor(-a),
}


def _compiled(text: str, name: str) -> Callable[[int], Fraction] | None:
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None

    def value(node: ast.AST, size: int) -> Any:
        match node:
            case ast.Constant(value=int() as number):
                return Fraction(number)
            case ast.Name(id=found) if found == name:
                return Fraction(size)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand, size)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
                return _OPERATIONS[type(op)](value(left, size), value(right, size))
            case ast.Call(func=ast.Name(id=function), args=[argument], keywords=[]) if function in _FUNCTIONS:
                return Fraction(_FUNCTIONS[function](value(argument, size)))
        raise ValueError(text)

    return lambda size: value(tree, size)
