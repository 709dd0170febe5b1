"""Patterns of scalar expressions, written as Python: ``max(x, c) -> x`` with a condition is an identity.

Names in a pattern: ``c``, ``d`` and ``f`` stand for literals, ``u`` and ``v`` for anything else, other names for any term. A
name that comes twice stands for equal terms. ``(p := x * y)`` names a part of what is found. ``product`` is ``mul`` or
``scale``. Sums, products, ``max`` and ``min`` are found in both orders, the written one first.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from compiler.ir import DType, Term, const
from compiler.numerics.scalar import apply

Found = Mapping[str, Term]
Pattern = str | float | tuple["Pattern", ...]  # a name, a number, or an operator's name before its arguments
Condition = Callable[[Found], bool]

LITERALS, OTHERS = frozenset("cdf"), frozenset("uv")
COMMUTE = frozenset({"add", "mul", "max", "min"})
ALIASES = {"product": ("mul", "scale")}
OPERATORS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}
WHOLE = "whole"  # the name of all that a pattern is found in


def pattern(text: str) -> Pattern:
    """The pattern that a Python expression writes down."""
    return _read(ast.parse(text.strip(), mode="eval").body)


def _read(tree: ast.AST) -> Pattern:
    match tree:
        case ast.Name(id=name):
            return name
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.BinOp(left=left, op=op, right=right):
            return OPERATORS[type(op)], _read(left), _read(right)
        case ast.NamedExpr(target=ast.Name(id=name), value=value):
            return ":=", name, _read(value)
        case ast.Call(func=ast.Name(id=name), args=args):
            return name, *map(_read, args)
    raise ValueError(f"{ast.unparse(tree)!r} is no pattern")


def matches(wanted: Pattern, term: Term, known: Found | None = None) -> Iterator[Found]:
    """Every way in which a term is as the pattern says, with the terms that its names stand for."""
    found = {WHOLE: term} if known is None else known
    if isinstance(wanted, str | float):
        yield from _leaf(wanted, term, found)
    elif wanted[0] == ":=":
        for more in matches(wanted[2], term, found):
            yield {**more, str(wanted[1]): term}
    elif term.name in ALIASES.get(str(wanted[0]), (wanted[0],)) and len(term.args) == len(wanted) - 1:
        for args in (term.args, term.args[::-1])[: 1 + (term.name in COMMUTE)]:
            yield from _each(wanted[1:], args, found)


def _leaf(wanted: str | float, term: Term, found: Found) -> Iterator[Found]:
    if isinstance(wanted, float):
        yield from [found] if term.name == "const" and term.imm == wanted else []
    elif _may_be(wanted, term) and found.get(wanted, term) == term:
        yield {**found, wanted: term}


def _may_be(name: str, term: Term) -> bool:
    literal = term.name == "const" and term.imm is not None
    return literal if name in LITERALS else not literal if name in OTHERS else True


def _each(wanted: Sequence[Pattern], terms: Sequence[Term], found: Found) -> Iterator[Found]:
    if not wanted:
        yield found
        return
    for more in matches(wanted[0], terms[0], found):
        yield from _each(wanted[1:], terms[1:], more)


def made(wanted: Pattern, found: Found, dtype: DType) -> Term:
    """The term that a pattern says, its operators giving ``dtype``; of literals alone a literal, rounded to it."""
    if isinstance(wanted, str):
        return found[wanted]
    if isinstance(wanted, float):
        return const(wanted, dtype)
    args = tuple(made(part, found, dtype) for part in wanted[1:])
    if all(a.name == "const" for a in args):
        with np.errstate(all="ignore"):
            numbers = [np.asarray(a.imm, dtype.numpy) for a in args]
            return const(float(apply(str(wanted[0]), numbers, dtype.numpy)), dtype)
    return Term(str(wanted[0]), args, dtype)


@dataclass(frozen=True)
class Rule:
    """``before`` may be replaced by ``after``, which gives the same, where ``when`` holds of what is found."""

    before: Pattern
    after: Pattern
    when: Condition | None = None


def rule(text: str, when: Condition | None = None) -> Rule:
    """A rule as ``pattern -> replacement``."""
    before, after = text.split("->")
    return Rule(pattern(before), pattern(after), when)


def rewritten(term: Term, rules: Sequence[Rule], also: Condition | None = None) -> Term | None:
    """What the first rule that holds makes of a term, at its root; None where none does. ``also``: a further condition."""
    for each in rules:
        for found in matches(each.before, term):
            if all(condition is None or condition(found) for condition in (each.when, also)):
                return made(each.after, found, term.dtype)
    return None
