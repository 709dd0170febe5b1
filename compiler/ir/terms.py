"""Scalar expressions written as Python arithmetic: ``(x * 2.0).op("exp")`` becomes the steps of an ``Expr``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from compiler.ir.expr import Expr, Step
from compiler.ir.types import DType
from compiler.numerics.scalar import SCALAR

Literal = int | float


@dataclass(frozen=True)
class Term:
    """A node of an expression tree; equal subtrees become one step."""

    name: str
    args: tuple[Term, ...]
    dtype: DType
    imm: Literal | None = None

    def op(self, name: str, *others: Term | Literal) -> Term:
        """Scalar operator ``name`` on this term and ``others``; literals take this term's type."""
        args = (self, *(self._term(o) for o in others))
        kind = SCALAR[name].result
        dtype = DType.BOOL if kind == "bool" else (args[1].dtype if name == "select" else self.dtype)
        return Term(name, args, dtype)

    def scaled(self, factor: Term) -> Term:
        """This whole number as a float, times ``factor``; the factor's type."""
        return Term("scale", (self, factor), factor.dtype)

    def nearest(self, dtype: DType) -> Term:
        """This float as a whole number: rounded half to even, saturated."""
        return Term("nearest", (self,), dtype)

    def on(self, args: Iterable[Term]) -> Term:
        """The same operator on other arguments; this very term where they are its own."""
        given = tuple(args)
        same = all(new is old for new, old in zip(given, self.args, strict=True))
        return self if same else Term(self.name, given, self.dtype, self.imm)

    def reads(self, position: int) -> bool:
        """Whether it is operand ``position`` itself."""
        return self.name == "arg" and self.imm == position

    def cast(self, dtype: DType) -> Term:
        return self if dtype == self.dtype else Term("cast", (self,), dtype)

    def saturated(self, dtype: DType) -> Term:
        """This number as a float8, what is beyond its largest as its largest: how ONNX converts unless told otherwise."""
        limit = dtype.largest
        return self.cast(DType.F32).op("max", -limit).op("min", limit).cast(dtype)

    def widen(self, name: str, other: Term, dtype: DType) -> Term:
        """``name`` computed in a wider type that holds both arguments."""
        return Term(name, (self, other), dtype)

    def _term(self, value: Term | Literal) -> Term:
        return value if isinstance(value, Term) else const(value, self.dtype)

    def __add__(self, other: Term | Literal) -> Term:
        return self.op("add", other)

    def __radd__(self, other: Literal) -> Term:
        return self._term(other).op("add", self)

    def __sub__(self, other: Term | Literal) -> Term:
        return self.op("sub", other)

    def __rsub__(self, other: Literal) -> Term:
        return self._term(other).op("sub", self)

    def __mul__(self, other: Term | Literal) -> Term:
        return self.op("mul", other)

    def __rmul__(self, other: Literal) -> Term:
        return self._term(other).op("mul", self)

    def __truediv__(self, other: Term | Literal) -> Term:
        return self.op("div", other)

    def __rtruediv__(self, other: Literal) -> Term:
        return self._term(other).op("div", self)

    def __neg__(self) -> Term:
        return self.op("neg")


def arg(position: int, dtype: DType) -> Term:
    """Operand ``position``; -1 is the reduced value in a ``post`` expression."""
    return Term("arg", (), dtype, position)


def index(loop: int, dtype: DType = DType.I64) -> Term:
    return Term("index", (), dtype, loop)


def const(value: Literal, dtype: DType) -> Term:
    """A literal; floats are rounded to the type at once, so that the text form shows what is used."""
    if dtype.is_float:
        return Term("const", (), dtype, float(dtype.numpy.type(value)))
    return Term("const", (), dtype, int(value))


def select(condition: Term, yes: Term | Literal, no: Term | Literal) -> Term:
    """``yes`` where the condition holds, else ``no``; at least one of them a term."""
    typed = yes if isinstance(yes, Term) else no
    assert isinstance(typed, Term)
    pair = tuple(t if isinstance(t, Term) else const(t, typed.dtype) for t in (yes, no))
    return Term("select", (condition, *pair), typed.dtype)


def expression(root: Term) -> Expr:
    """The straight-line form, each distinct subtree computed once, arguments first."""
    steps: list[Step] = []
    places: dict[int, int] = {}
    distinct: dict[tuple[object, ...], int] = {}
    stack = [root]
    while stack:
        term = stack[-1]
        missing = [a for a in term.args if id(a) not in places]
        if missing:
            stack.extend(reversed(missing))
            continue
        stack.pop()
        step = Step(term.name, tuple(places[id(a)] for a in term.args), term.dtype, term.imm)
        literal = None if step.imm is None else repr(step.imm)  # 0.0 and -0.0 are equal numbers and different literals
        key = (step.op, step.args, step.dtype.value, literal)
        if key not in distinct:
            distinct[key] = len(steps)
            steps.append(step)
        places[id(term)] = distinct[key]
    return Expr(tuple(steps))  # no subtree equals its own root, so the root is the last step


def term_of(
    expr: Expr, arguments: Mapping[int, Term] | None = None, counted: Callable[[Step], Term] | None = None
) -> Term:
    """The tree of an expression, with operand positions replaced by the given terms, and coordinates of loops by what
    ``counted`` makes of them."""
    known = arguments or {}
    terms: list[Term] = []
    for step in expr.steps:
        if step.op == "arg" and isinstance(step.imm, int) and step.imm in known:
            terms.append(known[step.imm])
        elif step.op == "index" and counted is not None:
            terms.append(counted(step))
        else:
            terms.append(Term(step.op, tuple(terms[i] for i in step.args), step.dtype, step.imm))
    return terms[-1]


def exchanged(root: Term, old: Term, new: Term) -> Term:
    """The tree with ``new`` for every subtree that equals ``old``."""
    return root if root is new else new if root == old else root.on(exchanged(a, old, new) for a in root.args)
