"""Recurrent cells, unrolled: the length is known, so every step is a few primitives of its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from compiler.frontend.op import Op, Rule
from compiler.ir.terms import Term, select

Activation = Callable[[Term], Term]
Step = Callable[[str, tuple[str, ...]], tuple[str, ...]]


def _activation(op: Op, name: str, alpha: float, beta: float) -> Activation:
    table: dict[str, Activation] = {
        "sigmoid": lambda x: x.op("sigmoid"),
        "tanh": lambda x: x.op("tanh"),
        "relu": lambda x: x.op("max", 0.0),
        "affine": lambda x: x * alpha + beta,
        "leakyrelu": lambda x: select(x.op("lt", 0.0), x * (alpha or 0.01), x),
        "thresholdedrelu": lambda x: select(x.op("gt", alpha or 1.0), x, 0.0),
        "scaledtanh": lambda x: (x * beta).op("tanh") * alpha,
        "hardsigmoid": lambda x: (x * (alpha or 0.2) + (beta or 0.5)).op("min", 1.0).op("max", 0.0),
        "elu": lambda x: select(x.op("lt", 0.0), (x.op("exp") - 1.0) * (alpha or 1.0), x),
        "softsign": lambda x: x / (x.op("abs") + 1.0),
        "softplus": lambda x: (x.op("exp") + 1.0).op("log"),
    }
    op.need(name.lower() in table, f"the activation {name!r} is unknown.")
    return table[name.lower()]


class Cell:
    """What the three operators share: weights of one direction, activations, the walk over time."""

    hidden_axis = 2  # of the recurrent weights: [directions, gates * hidden, hidden]

    def __init__(self, op: Op, gates: int, direction: int, count: int) -> None:
        self.op, self.gates, self.direction = op, gates, direction
        self.hidden = op.whole("hidden_size", op.shape(2)[self.hidden_axis])
        fits = op.rank() == 3 and op.shape(1)[3 - self.hidden_axis] == gates * self.hidden
        op.need(fits, "its weights do not fit its hidden size.")
        names = op.texts("activations") or (["Sigmoid", "Tanh", "Tanh"] if gates == 4 else ["Sigmoid", "Tanh"]) * count
        if gates == 1 and not op.texts("activations"):
            names = ["Tanh"] * count
        each = len(names) // count
        alphas, betas = op.reals("activation_alpha"), op.reals("activation_beta")
        self.functions = []
        for i in range(direction * each, direction * each + each):
            alpha, beta = (values[i] if i < len(values) else 0.0 for values in (alphas, betas))
            self.functions.append(_activation(op, names[i], alpha, beta))
        self.weights, self.recurrence = self.part(1), self.part(2)
        self.bias_in, self.bias_out = self._biases()
        self.clip = op.real("clip", 0.0)

    def part(self, i: int) -> str:
        """Input i of this direction."""
        value = self.op.slice(self.op.x(i), 0, self.direction, 1)
        return self.op.b.reshape(value, self.op.shape(i)[1:])

    def _biases(self) -> tuple[str | None, str | None]:
        if not self.op.has(3):
            return None, None
        both, size = self.part(3), self.gates * self.hidden
        return self.op.slice(both, 0, 0, size), self.op.slice(both, 0, size, size)

    def gate(self, value: str, place: int) -> str:
        """One gate's columns of [batch, gates * hidden]."""
        return self.op.slice(value, 1, place * self.hidden, self.hidden)

    def limited(self, term: Term) -> Term:
        return term.op("max", -self.clip).op("min", self.clip) if self.clip else term

    def first(self, i: int) -> str:
        """The state before the first step."""
        if self.op.has(i):
            return self.part(i)
        return self.op.const(np.zeros((self.op.shape()[1], self.hidden)), self.op.dtype())

    def projected(self) -> str:
        """All inputs times their weights at once, with the input bias: [time, batch, gates * hidden]."""
        bias = None if self.bias_in is None else ("g", self.bias_in)
        return self.op.contract("tbi,gi->tbg", self.op.x(), self.weights, bias=bias)

    def recurrent(self, state: str, weights: str, bias: str | None) -> str:
        return self.op.contract("bh,gh->bg", state, weights, bias=None if bias is None else ("g", bias))


def _walk(op: Op, cell: Cell, states: tuple[str, ...], step: Step, *, back: bool) -> tuple[str, tuple[str, ...]]:
    """All steps of one direction: outputs [time, 1, batch, hidden] and the last states."""
    time, batch = op.shape()[0], op.shape()[1]
    projected = cell.projected()
    lengths = op.optional(4)
    outputs: dict[int, str] = {}
    for t in reversed(range(time)) if back else range(time):
        now = op.b.reshape(op.slice(projected, 0, t, 1), (batch, cell.gates * cell.hidden))
        following = step(now, states)
        if lengths is not None:
            column = op.b.reshape(lengths, (batch, 1))
            states = tuple(
                op.point(_if_within(t), column, new, old) for new, old in zip(following, states, strict=True)
            )
            outputs[t] = op.point(_if_within(t), column, following[0], op.const(0.0, op.dtype()))
        else:
            states, outputs[t] = following, following[0]
    parts = [op.b.reshape(outputs[t], (1, 1, batch, cell.hidden)) for t in range(time)]
    return op.b.join(parts, 0), states


def _if_within(t: int) -> Callable[[Term, Term, Term], Term]:
    return lambda n, new, old: select(n.op("gt", t), new, old)


def _directions(op: Op) -> list[bool]:
    """Whether each direction runs backwards."""
    name = op.text("direction", "forward")
    op.need(name in ("forward", "reverse", "bidirectional"), f"the direction {name!r} is unknown.")
    return {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[name]


def _run(
    op: Op, gates: int, begin: Callable[[Cell], tuple[tuple[str, ...], Step]], kind: type[Cell] = Cell
) -> tuple[str | None, ...]:
    """All directions; outputs Y and the last of every state."""
    ways = _directions(op)
    batch_first = bool(op.whole("layout", 0))
    if batch_first:
        op.inputs = (op.transpose(op.x(), (1, 0, 2)), *op.inputs[1:])
        moved = [op.transpose(v, (1, 0, 2)) if v is not None and i in (5, 6) else v for i, v in enumerate(op.inputs)]
        op.inputs = tuple(moved)
    outputs, last = [], []
    for direction, back in enumerate(ways):
        cell = kind(op, gates, direction, len(ways))
        states, step = begin(cell)
        made, final = _walk(op, cell, states, step, back=back)
        outputs.append(made)
        last.append(final)
    y = op.b.join(outputs, 1)
    shape = (1, op.shape()[1], op.b.shape(y)[-1])
    finals = [op.b.join([op.b.reshape(s[i], shape) for s in last], 0) for i in range(len(last[0]))]
    if batch_first:
        y = op.transpose(y, (2, 0, 1, 3))
        finals = [op.transpose(f, (1, 0, 2)) for f in finals]
    return (y, *finals)


def _rnn(op: Op) -> tuple[str | None, ...]:
    def begin(cell: Cell) -> tuple[tuple[str, ...], Step]:
        (f,) = cell.functions

        def step(x: str, states: tuple[str, ...]) -> tuple[str, ...]:
            h = cell.recurrent(states[0], cell.recurrence, cell.bias_out)
            return (op.point(lambda a, b: f(cell.limited(a + b)), x, h),)

        return (cell.first(5),), step

    return _run(op, 1, begin)


def lstm(op: Op, kind: type[Cell] = Cell) -> tuple[str | None, ...]:
    """The standard's LSTM; ``kind`` says how its products are computed."""
    coupled = bool(op.whole("input_forget", 0))  # what is not taken in is kept: the forget gate has no say

    def begin(cell: Cell) -> tuple[tuple[str, ...], Step]:
        f, g, h = cell.functions
        peepholes = [op.slice(cell.part(7), 0, i * cell.hidden, cell.hidden) for i in range(3)] if op.has(7) else []

        def gate(x: str, r: str, place: int, act: Activation, peephole: str | None, c: str) -> str:
            a, b = cell.gate(x, place), cell.gate(r, place)
            if peephole is None:
                return op.point(lambda p, q: act(cell.limited(p + q)), a, b)
            return op.point(lambda p, q, w, s: act(cell.limited(p + q + w * s)), a, b, peephole, c)

        def step(x: str, states: tuple[str, ...]) -> tuple[str, ...]:
            hidden, c = states
            r = cell.recurrent(hidden, cell.recurrence, cell.bias_out)
            i, o, forget = (peepholes[k] if peepholes else None for k in range(3))
            kept = "" if coupled else gate(x, r, 2, f, forget, c)
            taken, value = gate(x, r, 0, f, i, c), gate(x, r, 3, g, None, c)
            kept = kept or op.point(lambda ig: 1 - ig, taken)
            new = op.point(lambda fg, old, ig, cg: fg * old + ig * cg, kept, c, taken, value)
            out = op.point(lambda og, s: og * h(s), gate(x, r, 1, f, o, new), new)
            return out, new

        return (cell.first(5), cell.first(6)), step

    return _run(op, 4, begin, kind)


def _gru(op: Op) -> tuple[str | None, ...]:
    def begin(cell: Cell) -> tuple[tuple[str, ...], Step]:
        f, g = cell.functions
        size = cell.hidden
        late = bool(op.whole("linear_before_reset", 0))
        tail = [op.slice(v, 0, 2 * size, size) if v else None for v in (cell.recurrence, cell.bias_out)]
        heads = [op.slice(v, 0, 0, 2 * size) if v else None for v in (cell.recurrence, cell.bias_out)]

        def step(x: str, states: tuple[str, ...]) -> tuple[str, ...]:
            (h,) = states
            assert heads[0] is not None
            assert tail[0] is not None
            r2 = cell.recurrent(h, heads[0], heads[1])
            z, r = (op.point(lambda a, b: f(cell.limited(a + b)), cell.gate(x, i), cell.gate(r2, i)) for i in (0, 1))
            if late:
                inner = cell.recurrent(h, tail[0], tail[1])
                n = op.point(lambda a, q, b: g(cell.limited(a + q * b)), cell.gate(x, 2), r, inner)
            else:
                inner = cell.recurrent(op.point(lambda a, b: a * b, r, h), tail[0], tail[1])
                n = op.point(lambda a, b: g(cell.limited(a + b)), cell.gate(x, 2), inner)
            return (op.point(lambda a, b, c: (1.0 - a) * b + a * c, z, n, h),)

        return (cell.first(5),), step

    return _run(op, 3, begin)


TABLE: dict[str, Rule] = {"RNN": _rnn, "LSTM": lstm, "GRU": _gru}
