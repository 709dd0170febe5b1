"""Recurrent cells, unrolled: the length is known, so every step is a few primitives of its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from compiler.frontend.op import Op, Rule
from compiler.ir import Term, select

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
        self.weights = self.part(1)
        self.recurrence: dict[tuple[int, int], str] = {}  # by first gate and count
        self.bias_in, self.bias_out = self._biases()
        self.clip = op.real("clip", 0.0)

    def part(self, i: int) -> str:
        """Input i of this direction."""
        value = self.op.slice(self.op.x(i), 0, self.direction, 1)
        return self.op.b.reshape(value, self.op.shape(i)[1:])

    def _biases(self) -> tuple[str | None, str | None]:
        """Of the inputs, and of the recurrent products."""
        if not self.op.has(3):
            return None, None
        both, size = self.part(3), self.gates * self.hidden
        return self.op.slice(both, 0, 0, size), self.op.slice(both, 0, size, size)

    def columns(self, value: str, axis: int, first: int, count: int) -> str:
        """What belongs to ``count`` gates from ``first`` on, where an axis has gates * hidden."""
        if count == self.gates:
            return value
        return self.op.slice(value, axis, first * self.hidden, count * self.hidden)

    def limited(self, term: Term) -> Term:
        return term.op("max", -self.clip).op("min", self.clip) if self.clip else term

    def first(self, i: int) -> str:
        """The state before the first step."""
        if self.op.has(i):
            return self.part(i)
        return self.op.const(np.zeros((self.op.shape()[1], self.hidden)), self.op.dtype())

    def projected(self, late: int) -> str:
        """All inputs times their weights at once, with biases: [time, batch, gates * hidden].

        The recurrent bias of all but the last ``late`` gates is added here, once, and not at every step.
        """
        bias = self.bias_in
        if bias is not None and self.bias_out is not None and late < self.gates:
            sooner = self.gates - late
            behind = [self.columns(bias, 0, sooner, late)] if late else []
            pair = (self.columns(part, 0, 0, sooner) for part in (bias, self.bias_out))
            bias = self.op.b.join([self.op.point(lambda a, b: a + b, *pair), *behind], 0)
        return self.with_inputs(bias)

    def with_inputs(self, bias: str | None) -> str:
        """The products of all inputs by their weights, and ``bias``."""
        return self.op.contract("tbi,gi->tbg", self.op.x(), self.weights, bias=None if bias is None else ("g", bias))

    def recurrent(self, state: str, first: int, count: int, bias: str | None = None) -> str:
        """The product of a state by the weights of ``count`` gates from ``first`` on: [batch, count * hidden]."""
        key = (first, count)
        if key not in self.recurrence:
            self.recurrence[key] = self.columns(self.part(2), 0, first, count)
        named = None if bias is None else ("g", bias)
        return self.op.contract("bh,gh->bg", state, self.recurrence[key], bias=named)

    def active(self, x: str, state: str, first: int, count: int, function: Activation) -> str:
        """Gates of one step that have one activation, side by side: one product with all that follows it."""
        now, before = self.columns(x, 1, first, count), self.recurrent(state, first, count)
        return self.op.point(lambda a, b: function(self.limited(a + b)), now, before)


def _walk(
    op: Op, cell: Cell, states: tuple[str, ...], step: Step, *, back: bool, late: int
) -> tuple[str, tuple[str, ...]]:
    """All steps of one direction: outputs [time, 1, batch, hidden] and the last states.

    ``late``: how many of the last gates add their recurrent bias in ``step``.
    """
    time, batch = op.shape()[0], op.shape()[1]
    projected = cell.projected(late)
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
    op: Op,
    gates: int,
    begin: Callable[[Cell], tuple[tuple[str, ...], Step]],
    kind: type[Cell] = Cell,
    late: int = 0,
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
        made, final = _walk(op, cell, states, step, back=back, late=late)
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
            return (cell.active(x, states[0], 0, 1, f),)

        return (cell.first(5),), step

    return _run(op, 1, begin)


def lstm(op: Op, kind: type[Cell] = Cell) -> tuple[str | None, ...]:
    """The standard's LSTM; ``kind`` says how its products are computed."""
    peep = op.has(7)

    def begin(cell: Cell) -> tuple[tuple[str, ...], Step]:
        _, g, h = cell.functions
        gates = _watching(op, cell) if peep else _gates(op, cell)

        def step(x: str, states: tuple[str, ...]) -> tuple[str, ...]:
            taken, kept, out = gates(x, states)
            value = cell.active(x, states[0], 3, 1, g)
            new = op.point(lambda fg, old, ig, cg: fg * old + ig * cg, kept, states[1], taken, value)
            return op.point(lambda og, s: og * h(s), out(new), new), new

        return (cell.first(5), cell.first(6)), step

    return _run(op, 4, begin, kind)


Gates = Callable[[str, tuple[str, ...]], tuple[str, str, Callable[[str], str]]]


def _gates(op: Op, cell: Cell) -> Gates:
    """Of an LSTM's step: what is taken in, what is kept, and what is let out given the new cell state."""
    f, coupled = cell.functions[0], bool(op.whole("input_forget", 0))

    def gates(x: str, states: tuple[str, ...]) -> tuple[str, str, Callable[[str], str]]:
        all_of = cell.active(x, states[0], 0, 2 if coupled else 3, f)
        taken, out = (op.slice(all_of, 1, i * cell.hidden, cell.hidden) for i in (0, 1))
        kept = _rest(op, taken) if coupled else op.slice(all_of, 1, 2 * cell.hidden, cell.hidden)
        return taken, kept, lambda _: out

    return gates


def _watching(op: Op, cell: Cell) -> Gates:
    """The same where gates see the cell state through peepholes."""
    f, coupled = cell.functions[0], bool(op.whole("input_forget", 0))
    weights = [op.slice(cell.part(7), 0, i * cell.hidden, cell.hidden) for i in range(3)]

    def gate(x: str, state: str, place: int, seen: str) -> str:
        now, before = cell.columns(x, 1, place, 1), cell.recurrent(state, place, 1)
        return op.point(lambda p, q, w, s: f(cell.limited(p + q + w * s)), now, before, weights[place], seen)

    def gates(x: str, states: tuple[str, ...]) -> tuple[str, str, Callable[[str], str]]:
        hidden, old = states
        taken = gate(x, hidden, 0, old)
        kept = _rest(op, taken) if coupled else gate(x, hidden, 2, old)
        return taken, kept, lambda new: gate(x, hidden, 1, new)

    return gates


def _rest(op: Op, taken: str) -> str:
    """What is not taken in is kept: the forget gate has no say."""
    return op.point(lambda ig: 1 - ig, taken)


def _gru(op: Op) -> tuple[str | None, ...]:
    late = bool(op.whole("linear_before_reset", 0))

    def begin(cell: Cell) -> tuple[tuple[str, ...], Step]:
        f, g = cell.functions
        bias = None if cell.bias_out is None else cell.columns(cell.bias_out, 0, 2, 1)

        def step(x: str, states: tuple[str, ...]) -> tuple[str, ...]:
            (h,) = states
            both = cell.active(x, h, 0, 2, f)
            z, r = (op.slice(both, 1, i * cell.hidden, cell.hidden) for i in (0, 1))
            if late:
                inner = cell.recurrent(h, 2, 1, bias)
                n = op.point(lambda a, q, b: g(cell.limited(a + q * b)), cell.columns(x, 1, 2, 1), r, inner)
            else:
                n = cell.active(x, op.point(lambda a, b: a * b, r, h), 2, 1, g)
            return (op.point(lambda a, b, c: (1.0 - a) * b + a * c, z, n, h),)

        return (cell.first(5),), step

    return _run(op, 3, begin, late=int(late))


TABLE: dict[str, Rule] = {"RNN": _rnn, "LSTM": lstm, "GRU": _gru}
