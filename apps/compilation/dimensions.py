"""Suggested sizes for the variable dimensions of a model, and shape formulas in their simplest form. Pure.

ONNX names a variable dimension but does not say its usual size. Names and positions that exporters use give a good first
guess; whoever compiles can change it.
"""

from __future__ import annotations

import ast
import re
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
    """A size for each variable dimension; `inputs`: [{"name", "dtype", "shape": [int | name]}]."""
    return {name: _by_name(name) or _by_place(name, inputs) for name in names}


def _by_name(name: str) -> int | None:
    plain = name.lower().strip("_")
    if plain in EXACT:
        return EXACT[plain]
    return next((size for part, size in USUAL if part in plain), None)


def _by_place(name: str, inputs: Sequence[Mapping[str, Any]]) -> int:
    """The first axis is the batch; then images, texts and signals are told apart by rank and element type."""
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
    """A dimension as exporters write it, such as "floor(floor(height/2 - 1/2)/2) + 1", in a shorter equal form.

    A formula in one variable that equals `m * floor((x + a) / k) + c` for every size up to CHECKED_TO is written so, with
    ceil where that is shorter; any other text is returned unchanged.
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
    """The form of a staircase that rises by `m` every `k` sizes; empty for anything else. `values`: from size 0 on."""
    rises = [after - before for before, after in pairwise(values)]
    steps = [size for size, rise in enumerate(rises, 1) if rise]
    if len(steps) < 2 or len({rises[size - 1] for size in steps}) > 1:
        return ""
    k, m = steps[1] - steps[0], rises[steps[0] - 1]
    if any(after - before != k for before, after in pairwise(steps)) or steps[0] > k or m.denominator > 1:
        return ""
    c = values[0]  # before the first step, where floor((0 + a) / k) is 0
    a = k - steps[0]
    inner = name if k == 1 else f"floor({_sum(name, a)} / {k})"
    if a == k - 1 > 0:
        inner = f"ceil({name} / {k})"
    return _plus(f"{m} * {inner}" if m != 1 else inner, c)


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
    """The formula as a function of its variable, exact by fractions; None if it holds anything but arithmetic."""
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
