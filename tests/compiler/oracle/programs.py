"""Small programs put together by hand, each for one corner of the machine, and the builder that times them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler import targets
from compiler.isa.binary import Binary, MemoryMap, StateSlot
from compiler.isa.element import NAME, SIZE
from compiler.isa.instruction import Flag, Instruction, Op, pack
from compiler.isa.machine import UNIT_CLASSES
from compiler.isa.paths import longest
from compiler.isa.program import Program, Step
from compiler.isa.stream import Gather, GatherAxis, Guard, Loop, Stream
from compiler.isa.table import TABLE, accesses, time
from compiler.isa.tables import Pool, Port
from tests.compiler.oracle.footprint import addresses

Array = np.ndarray[Any, Any]
Feed = dict[str, Array]
BOTH = Flag.FIRST | Flag.LAST


@dataclass
class Sample:
    """A program, two feeds for it, and what they must give."""

    name: str
    binary: Binary
    feeds: list[Feed]
    expected: list[Feed]


def row_major(dtype: str, base: int, rows: int, columns: int, **more: Any) -> Stream:
    size = SIZE[dtype]
    return Stream(dtype, base, (), (Loop(rows, columns * size),), (Loop(columns, size),), **more)


def flat(dtype: str, base: int, points: int) -> Stream:
    return Stream(dtype, base, (), (Loop(points, SIZE[dtype]),))


class Builder:
    """Lays out memory, and gives each instruction the first cycle at which nothing before it stands in its way."""

    def __init__(self, target: str = "lpu", chain: bool = False) -> None:
        self.target = targets.load(target)
        self.pool = Pool()
        self.image = b""
        self.state: list[tuple[str, Array]] = []
        self.arena = 0
        self.steps: list[Instruction] = []
        self.chain = chain  # every instruction after the one before

    def constant(self, array: Array) -> int:
        """Address of ``array`` in the constants; all constants come before anything else is placed."""
        assert not self.arena
        at = len(self.image)
        self.image += self._whole(np.ascontiguousarray(array).tobytes())
        return at

    def variable(self, name: str, initial: Array) -> int:
        assert not self.arena
        at = len(self.image) + sum(len(self._whole(a.tobytes())) for _, a in self.state)
        self.state.append((name, initial))
        return at

    def _whole(self, data: bytes) -> bytes:
        return data + bytes(-len(data) % self.target.line_bytes)

    def place(self, size: int) -> int:
        at = len(self.image) + sum(len(self._whole(a.tobytes())) for _, a in self.state) + self.arena
        self.arena += self.target.lines(size) * self.target.line_bytes
        return at

    def stream(self, stream: Stream) -> int:
        return self.pool.stream(stream)

    def program(self, *steps: tuple[str, tuple[int, ...], str] | tuple[str, tuple[int, ...], str, float]) -> int:
        return self.pool.program(Program(tuple(Step(*step) for step in steps)))

    def port(self, name: str, dtype: str, shape: tuple[int, ...], *, output: bool = False) -> int:
        return self.pool.port(Port(name, dtype, shape, output))

    def add(self, op: Op, **fields: int) -> Instruction:
        step = Instruction(opcode=op, **fields)
        step = step._replace(cycle=self._first_cycle(step))
        self.steps.append(step)
        return step

    def branch(self, condition: int, flags: int = 0) -> int:
        """A BRANCH behind everything; where it lands is said by ``land``."""
        self.add(Op.BRANCH, a=condition, flags=flags, count1=1, count2=1)
        return len(self.steps) - 1

    def land(self, branch: int) -> None:
        """What has been added since is what the branch skips."""
        i = self.steps[branch]
        ends = [step.cycle + time(self.target, self.pool, step).end for step in self.steps[branch:]]
        self.steps[branch] = i._replace(start3=max(ends) - ends[0], count3=len(self.steps) - branch - 1)

    def _lines(self, i: Instruction) -> tuple[set[int], set[int]]:
        reads: set[int] = set()
        writes: set[int] = set()
        for access in accesses(self.pool, i):
            stream = self.pool.streams[access.stream]
            lines = {a // self.target.line_bytes for a in addresses(stream, i.g0, access.rows, access.inner)}
            (writes if access.write else reads).update(lines)
        if i.gather:
            for axis in self.pool.gathers[i.gather - 1].axes:
                first = min(writes if i.opcode == Op.SCATTER else reads)
                reach = set(range(first, first + self.target.lines(axis.extent * abs(axis.stride)) + 1))
                (writes if i.opcode == Op.SCATTER else reads).update(reach)
        return reads, writes

    def _first_cycle(self, i: Instruction) -> int:
        mine = time(self.target, self.pool, i)
        reads, writes = self._lines(i)
        cycle = 0
        for before in self.steps:
            other = time(self.target, self.pool, before)
            was_read, was_written = self._lines(before)
            end = before.cycle + other.end
            if TABLE[Op(before.opcode)].unit == TABLE[Op(i.opcode)].unit and before.unit == i.unit:
                cycle = max(cycle, before.cycle + other.beats)
            if was_written & (reads | writes) or self.chain:
                cycle = max(cycle, end)
            if was_read & writes:
                cycle = max(cycle, before.cycle + 1, before.cycle + other.beats - mine.latency)
            if (i.unit, i.slot) == (before.unit, before.slot) and {i.opcode, before.opcode} == {Op.LOADW, Op.MATMUL}:
                loads = i.opcode == Op.LOADW
                cycle = max(cycle, before.cycle + other.beats - mine.latency if loads else end, before.cycle)
        return cycle

    def build(self, interval: int | None = None) -> Binary:
        order = sorted(self.steps, key=lambda i: (i.cycle, UNIT_CLASSES.index(TABLE[Op(i.opcode)].unit), i.unit))
        latency, _ = longest(order, [i.cycle + time(self.target, self.pool, i).end for i in order])
        asks = any(i.opcode == Op.BRANCH and i.a for i in order)
        slots, at = [], len(self.image)
        for name, initial in self.state:
            slots.append(StateSlot(name, at, NAME[initial.dtype], initial.shape, initial.tobytes()))
            at += len(self._whole(initial.tobytes()))
        memory = MemoryMap(len(self.image), at - len(self.image), self.arena)
        return Binary(
            self.target.name,
            self.target.digest,
            "test",
            pack(order),
            tuple(self.pool.streams),
            tuple(self.pool.programs),
            tuple(self.pool.gathers),
            tuple(self.pool.ports),
            tuple(slots),
            self.image,
            memory,
            ("alpha", "beta"),
            latency,
            latency if interval is None else interval,
            not asks,
            "a choice" if asks else "",
        )


def _random(seed: int, *shape: int, dtype: str = "f4") -> Array:
    rng = np.random.default_rng(seed)
    if dtype in ("f4", "f2"):
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(-20 if dtype.startswith("i") else 0, 20, shape).astype(dtype)


def product(target: str = "lpu") -> Sample:
    """relu(x w + bias) over two K tiles, double-buffered, with a residual added in place."""
    m, k, n = 6, 20, 9
    b = Builder(target)
    w, bias = _random(1, k, n), _random(2, n)
    at_w, at_bias = b.constant(w), b.constant(bias)
    at_x, at_r = b.place(m * k * 4), b.place(m * n * 4)
    x, r, y = b.port("x", "f32", (m, k)), b.port("r", "f32", (m, n)), b.port("y", "f32", (m, n), output=True)
    sx, sr = b.stream(row_major("f32", at_x, m, k)), b.stream(row_major("f32", at_r, m, n))
    sw = b.stream(row_major("f32", at_w, k, n))
    sb = b.stream(Stream("f32", at_bias, (), (), (Loop(n, 4),)))
    b.add(Op.RECV, out=sx, port=x, count1=m, count2=k)
    b.add(Op.RECV, out=sr, port=r, count1=m, count2=n)
    post = b.program(
        ("arg", (), "f32", -1),
        ("arg", (), "f32", 0),
        ("add", (0, 1), "f32"),
        ("arg", (), "f32", 1),
        ("add", (2, 3), "f32"),
        ("const", (), "f32", 0.0),
        ("max", (4, 5), "f32"),
    )
    for tile in range(2):
        b.add(Op.LOADW, slot=tile, a=sw, start1=tile * 10, count1=10, count2=n)
    b.add(Op.MATMUL, flags=Flag.FIRST, a=sx, count1=m, count2=10, count3=n)
    b.add(
        Op.MATMUL,
        slot=1,
        flags=Flag.LAST,
        a=sx,
        b=sb,
        c=sr,
        out=sr,
        post=post,
        count1=m,
        start2=10,
        count2=10,
        count3=n,
    )
    b.add(Op.SEND, a=sr, port=y, count1=m, count2=n, source=1)
    feeds = [{"x": _random(3 + f, m, k), "r": _random(5 + f, m, n)} for f in range(2)]
    wide = [np.maximum(f["x"].astype("f8") @ w + bias + f["r"], 0) for f in feeds]
    return Sample(f"product-{target}", b.build(), feeds, [{"y": v} for v in wide])


def convolution(target: str = "lpu") -> Sample:
    """A padded 3 x 3 convolution, channels last, on two planes by output channels."""
    h, w, c, n = 4, 5, 3, 8
    b = Builder(target)
    weights = _random(1, 9 * c, n)
    at_w = b.constant(weights)
    at_x, at_y = b.place(h * w * c * 4), b.place(h * w * n * 4)
    x, y = b.port("x", "f32", (h, w, c)), b.port("y", "f32", (h, w, n), output=True)
    rows, columns = (Loop(h, w * c * 4), Loop(w, c * 4)), (Loop(3, w * c * 4), Loop(3, c * 4), Loop(c, 4))
    guards = (Guard(h, -1, (1, 0, 1, 0, 0)), Guard(w, -1, (0, 1, 0, 1, 0)))
    window = b.stream(Stream("f32", at_x - (w + 1) * c * 4, (), rows, columns, guards))
    sw = b.stream(row_major("f32", at_w, 9 * c, n))
    sy = b.stream(row_major("f32", at_y, h * w, n))
    b.add(Op.RECV, out=b.stream(row_major("f32", at_x, h * w, c)), port=x, count1=h * w, count2=c)
    for plane in range(2):
        half = {"count2": 9 * c, "start3": plane * 4, "count3": 4}
        b.add(Op.LOADW, unit=plane, a=sw, count1=9 * c, start2=plane * 4, count2=4)
        b.add(Op.MATMUL, unit=plane, flags=BOTH, row=3, a=window, out=sy, count1=h * w, **half)
    b.add(Op.SEND, a=sy, port=y, count1=h * w, count2=n)
    feeds = [{"x": _random(3 + f, h, w, c)} for f in range(2)]
    expected = []
    for feed in feeds:
        padded = np.pad(feed["x"].astype("f8"), ((1, 1), (1, 1), (0, 0)))
        patches = np.stack([padded[i : i + h, j : j + w] for i in range(3) for j in range(3)], 2).reshape(h, w, 9 * c)
        expected.append({"y": patches @ weights})
    return Sample(f"convolution-{target}", b.build(), feeds, expected)


def softmax(target: str = "lpu") -> Sample:
    """Maximum, exponentials in place, sum, division: vector reductions and maps."""
    m, n = 5, 12
    b = Builder(target)
    at_x, at_t = b.place(m * n * 4), b.place(m * 4)
    x, y = b.port("x", "f32", (m, n)), b.port("y", "f32", (m, n), output=True)
    sx, sr = b.stream(row_major("f32", at_x, m, n)), b.stream(flat("f32", at_t, m))
    every = b.stream(Stream("f32", at_x, (), (Loop(m, n * 4), Loop(n, 4))))
    repeated = b.stream(Stream("f32", at_t, (), (Loop(m, 4), Loop(n, 0))))
    args = (("arg", (), "f32", 0), ("arg", (), "f32", 1))
    exp = b.program(*args, ("sub", (0, 1), "f32"), ("exp", (2,), "f32"))
    div = b.program(*args, ("div", (0, 1), "f32"))
    b.add(Op.RECV, out=sx, port=x, count1=m, count2=n)
    b.add(Op.VECTOR, a=sx, out=sr, reducer=2, count1=m, count2=n)
    b.add(Op.VECTOR, a=every, b=repeated, out=every, pre=exp, count1=m * n, count2=1)
    b.add(Op.VECTOR, a=sx, out=sr, reducer=1, count1=m, count2=n)
    b.add(Op.VECTOR, a=every, b=repeated, out=every, pre=div, count1=m * n, count2=1, source=1)
    b.add(Op.SEND, a=sx, port=y, count1=m, count2=n)
    feeds = [{"x": _random(3 + f, m, n)} for f in range(2)]
    powers = [np.exp(f["x"].astype("f8") - f["x"].max(1, keepdims=True)) for f in feeds]
    return Sample(f"softmax-{target}", b.build(), feeds, [{"y": p / p.sum(1, keepdims=True)} for p in powers])


def embedding(target: str = "lpu") -> Sample:
    """Rows of a table by index, then a transposing copy with padding."""
    v, n, d = 7, 5, 6
    b = Builder(target)
    table = _random(1, v, d)
    at_t = b.constant(table)
    at_i, at_g, at_y = b.place(n * 8), b.place(n * d * 4), b.place((d + 1) * n * 4)
    ids, y = b.port("ids", "i64", (n,)), b.port("y", "f32", (d + 1, n), output=True)
    si = b.stream(flat("i64", at_i, n))
    data = b.stream(Stream("f32", at_t, (), (Loop(n, 0),), (Loop(d, 4),)))
    got = b.stream(row_major("f32", at_g, n, d))
    turned = b.stream(Stream("f32", at_g, (), (Loop(d + 1, 4),), (Loop(n, d * 4),), (Guard(d, 0, (1, 0)),), -2.5))
    sy = b.stream(row_major("f32", at_y, d + 1, n))
    gather = b.pool.gather(Gather((GatherAxis(si, v, d * 4, 0, (0, 0)),)))
    b.add(Op.RECV, out=si, port=ids, count1=n, count2=1)
    b.add(Op.GATHER, a=data, out=got, gather=gather, count1=n, count2=d)
    b.add(Op.MOVE, a=turned, out=sy, count1=d + 1, count2=n, source=1)
    b.add(Op.SEND, a=sy, port=y, count1=d + 1, count2=n)
    feeds = [{"ids": np.array(i, "i8")} for i in ([3, 0, -1, 6, 2], [5, 5, 1, -7, 4])]
    expected = [np.vstack([table[f["ids"]].T, np.full((1, n), -2.5)]) for f in feeds]
    return Sample(f"embedding-{target}", b.build(), feeds, [{"y": e} for e in expected])


def histogram(target: str = "lpu") -> Sample:
    """Numbers in order, and added up by the place that each of them names."""
    n, v = 6, 5
    b = Builder(target)
    at_z = b.constant(np.zeros(v, "i4"))
    at_x, at_p, at_s, at_h = b.place(n * 4), b.place(n * 8), b.place(n * 4), b.place(v * 4)
    x, p = b.port("x", "i32", (n,)), b.port("p", "i64", (n,))
    s, h = b.port("s", "i32", (n,), output=True), b.port("h", "i32", (v,), output=True)
    sx, sp, ss, sh = (
        b.stream(flat(t, at, k))
        for t, at, k in (("i32", at_x, n), ("i64", at_p, n), ("i32", at_s, n), ("i32", at_h, v))
    )
    zeros = b.stream(flat("i32", at_z, v))
    row, ordered = (b.stream(row_major("i32", at, 1, n)) for at in (at_x, at_s))
    target_stream = b.stream(Stream("i32", at_h, (), (Loop(n, 0),)))
    places = b.pool.gather(Gather((GatherAxis(sp, v, 4, 0, (0,)),)))
    b.add(Op.MOVE, a=zeros, out=sh, count1=v, count2=1)
    b.add(Op.RECV, out=sx, port=x, count1=n, count2=1)
    b.add(Op.RECV, out=sp, port=p, count1=n, count2=1)
    b.add(Op.SORT, a=row, out=ordered, count1=1, count2=n)
    b.add(Op.SCATTER, a=sx, out=target_stream, gather=places, reducer=1, count1=n, count2=1, source=1)
    b.add(Op.SEND, a=ss, port=s, count1=n, count2=1)
    b.add(Op.SEND, a=sh, port=h, count1=v, count2=1)
    feeds = [
        {"x": np.array(values, "i4"), "p": np.array(at, "i8")}
        for values, at in (([5, -3, 9, 0, 5, 2], [0, 4, 0, -1, 2, 2]), ([1, 1, 1, 2, 8, -9], [3, 3, 3, 3, 3, 3]))
    ]
    expected = []
    for feed in feeds:
        sums = np.zeros(v)
        np.add.at(sums, feed["p"], feed["x"])
        expected.append({"s": np.sort(feed["x"]), "h": sums})
    return Sample(f"histogram-{target}", b.build(), feeds, expected)


def choice(target: str = "lpu") -> Sample:
    """y = x + x, one copy after the other, where c holds, else -x; behind it z = y at once or, unless d, after a second sum."""
    n = 40
    b = Builder(target, chain=True)
    at_c, at_d, at_x, at_y = (b.place(size) for size in (1, 1, n * 4, n * 4))
    c, d, x = b.port("c", "bool", (1,)), b.port("d", "bool", (1,)), b.port("x", "f32", (n,))
    y = b.port("y", "f32", (n,), output=True)
    sc, sd = b.stream(flat("bool", at_c, 1)), b.stream(flat("bool", at_d, 1))
    sx, sy = b.stream(flat("f32", at_x, n)), b.stream(flat("f32", at_y, n))
    one = ("arg", (), "f32", 0)
    twice = b.program(one, ("add", (0, 0), "f32"))
    minus = b.program(one, ("neg", (0,), "f32"))
    b.add(Op.RECV, out=sc, port=c, count1=1, count2=1)
    b.add(Op.RECV, out=sd, port=d, count1=1, count2=1)
    b.add(Op.RECV, out=sx, port=x, count1=n, count2=1)
    first = b.branch(sc)
    b.add(Op.VECTOR, a=sx, out=sy, pre=twice, count1=n, count2=1)
    jump = b.branch(0)
    b.land(first)
    b.add(Op.VECTOR, a=sx, out=sy, pre=minus, count1=n, count2=1)
    b.land(jump)
    second = b.branch(sd, Flag.UNLESS)
    b.add(Op.VECTOR, a=sy, out=sy, pre=twice, count1=n, count2=1, source=1)
    b.land(second)
    b.add(Op.SEND, a=sy, port=y, count1=n, count2=1)
    feeds = [
        {"c": np.array([up]), "d": np.array([down]), "x": _random(61 + k, n)}
        for k, (up, down) in enumerate(((True, False), (False, True), (False, False), (True, True)))
    ]
    signs = [(2 if f["c"][0] else -1) * (1 if f["d"][0] else 2) for f in feeds]
    return Sample(f"choice-{target}", b.build(), feeds, [{"y": s * f["x"]} for s, f in zip(signs, feeds, strict=True)])


def accumulator(target: str = "lpu") -> Sample:
    """A state that sums what comes in: y = s + x, s' = y."""
    n = 30
    b = Builder(target)
    at_s = b.variable("s", np.arange(n, dtype="f4"))
    at_x = b.place(n * 4)
    x, y = b.port("x", "f32", (n,)), b.port("y", "f32", (n,), output=True)
    ss, sx = b.stream(flat("f32", at_s, n)), b.stream(flat("f32", at_x, n))
    add = b.program(("arg", (), "f32", 0), ("arg", (), "f32", 1), ("add", (0, 1), "f32"))
    b.add(Op.RECV, out=sx, port=x, count1=n, count2=1)
    b.add(Op.VECTOR, a=ss, b=sx, out=ss, pre=add, count1=n, count2=1)
    b.add(Op.SEND, a=ss, port=y, count1=n, count2=1)
    feeds = [{"x": _random(3 + f, n)} for f in range(2)]
    first = np.arange(n) + feeds[0]["x"].astype("f8")
    return Sample(f"accumulator-{target}", b.build(), feeds, [{"y": first}, {"y": first + feeds[1]["x"]}])


def quantised(target: str = "lpu") -> Sample:
    """int8 rows in batches of two against int8 weights; loop coordinates and a cast in the epilogue."""
    g, m, k, n = 2, 4, 10, 6
    b = Builder(target)
    w = _random(1, g, k, n, dtype="i1")
    at_w = b.constant(w)
    at_x, at_y = b.place(g * m * k), b.place(g * m * n * 4)
    x, y = b.port("x", "u8", (g, m, k)), b.port("y", "f32", (g, m, n), output=True)
    sx = b.stream(Stream("u8", at_x, (Loop(g, m * k),), (Loop(m, k),), (Loop(k, 1),)))
    sw = b.stream(Stream("i8", at_w, (Loop(g, k * n),), (Loop(k, n),), (Loop(n, 1),)))
    sy = b.stream(Stream("f32", at_y, (Loop(g, m * n * 4),), (Loop(m, n * 4),), (Loop(n, 4),)))
    post = b.program(("arg", (), "i32", -1), ("index", (), "i32", 2), ("add", (0, 1), "i32"), ("cast", (2,), "f32"))
    for batch in range(g):
        b.add(Op.RECV, out=sx, port=x, g0=batch, offset=batch * m * k, count1=m, count2=k)
        b.add(Op.LOADW, unit=batch, a=sw, g0=batch, count1=k, count2=n)
        b.add(Op.MATMUL, unit=batch, flags=BOTH, a=sx, out=sy, post=post, g0=batch, count1=m, count2=k, count3=n)
        b.add(Op.SEND, a=sy, port=y, g0=batch, offset=batch * m * n * 4, count1=m, count2=n)
    feeds = [{"x": _random(3 + f, g, m, k, dtype="u1")} for f in range(2)]
    wide = [f["x"].astype(int) @ w.astype(int) + np.arange(n) for f in feeds]
    return Sample(f"quantised-{target}", b.build(), feeds, [{"y": v} for v in wide])


MAKERS: tuple[Callable[[str], Sample], ...] = (
    product,
    convolution,
    softmax,
    embedding,
    histogram,
    accumulator,
    quantised,
    choice,
)


def samples() -> list[Sample]:
    return [make(target) for target in ("lpu", "lpu2") for make in MAKERS]
