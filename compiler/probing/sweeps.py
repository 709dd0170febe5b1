"""Which instructions are probed, with which operands: enough of them that every figure of a processor's file shows alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from compiler.isa import SIZE, TABLE, Flag, Op
from compiler.isa.meaning import accumulator
from compiler.isa.timing import sort_run
from compiler.numerics.reduce import REDUCER_CODES
from compiler.numerics.scalar import SCALAR
from compiler.probing.micro import Bench, MicroProgram
from compiler.targets import Target

WHOLE = int(Flag.FIRST | Flag.LAST)
SPREAD = 2  # lines between elements of a strided operand
Build = Callable[[Bench], None]


def micro_programs(target: Target) -> list[MicroProgram]:
    """Micro-programs for every instruction of every unit that the processor has, each under a name of its own."""
    made: list[MicroProgram] = []
    names: set[str] = set()
    for op, sweep in SWEEPS.items():
        if not target.unit(TABLE[op].unit).instances:
            continue
        for name, build in sweep(target):
            assert name not in names, name
            names.add(name)
            bench = Bench(target, name)
            build(bench)
            made.append(bench.finish())
    return made


Sweep = Iterator[tuple[str, Build]]


def _dense(count: int, dtype: str) -> list[tuple[int, int]]:
    return [(count, SIZE[dtype])]


def _apart(target: Target, count: int) -> list[tuple[int, int]]:
    """One element in every second line: as many line touches as elements."""
    return [(count, SPREAD * target.line_bytes)]


def _some(*counts: int) -> list[int]:
    return sorted({count for count in counts if count > 0})


def _loadw(t: Target) -> Sweep:
    for dtype, (rows, columns) in t.matrix.tiles.items():
        size = SIZE[dtype]
        for k, n in sorted({(1, 1), (rows, columns), (max(1, rows // 2), columns), (rows, max(1, columns // 3))}):

            def dense(b: Bench, k: int = k, n: int = n, dtype: str = dtype, size: int = size) -> None:
                a = b.factor(dtype, [(k, n * size)], [(n, size)])
                b.add(Op.LOADW, a=a, count1=k, count2=n)

            yield f"loadw-{dtype}-{k}x{n}", dense

        def apart(b: Bench, dtype: str = dtype, rows: int = rows) -> None:
            b.add(Op.LOADW, a=b.factor(dtype, _apart(t, rows), [(1, SIZE[dtype])]), count1=rows)

        yield f"loadw-{dtype}-apart", apart


def _steps(count: int, sums: str) -> list[tuple[object, ...]]:
    """A program of ``count`` additions on the accumulated value."""
    found: list[tuple[object, ...]] = [("arg", (), sums, -1)]
    return found + [("add", (n, n), sums) for n in range(count)]


def _product(
    t: Target, dtype: str, rows: int, *, steps: int = -1, apart: str = "", flags: int = WHOLE, k: int = 0, n: int = 0
) -> Build:
    """``steps`` of epilogue (-1: none); ``apart``: the operand whose elements lie lines apart."""

    def build(b: Bench) -> None:
        depth, width = (k or t.matrix.tiles[dtype][0]), (n or t.matrix.tiles[dtype][1])
        sums, size = accumulator(dtype), SIZE[dtype]
        fields = {"count1": rows, "count2": depth, "count3": width, "flags": flags}
        line = SPREAD * t.line_bytes
        b.add(Op.LOADW, a=b.factor(dtype, [(depth, width * size)], [(width, size)]), count1=depth, count2=width)
        step = line if apart == "a" else size
        fields["a"] = b.factor(dtype, [(rows, depth * step)], [(depth, step)])
        if flags & Flag.LAST:
            step = line if apart == "out" else SIZE[sums]
            fields["out"] = b.result(sums, [(rows, width * step)], [(width, step)])
            program = _steps(max(0, steps), sums)
            for n_field, field in enumerate({"b": "b", "c": "bc", "d": "bcd"}.get(apart, "")):
                step = line if apart == field else 0
                fields[field] = b.zeros(sums, [(rows, width * step)], [(width, step or SIZE[sums])])
                program += [("arg", (), sums, n_field), ("add", (len(program) - 1, len(program)), sums)]
            if len(program) > 1 or steps >= 0:
                fields["post"] = b.program(*program)
        b.add(Op.MATMUL, **fields)
        if not flags & Flag.LAST:
            out = b.result(sums, [(rows, width * SIZE[sums])], [(width, SIZE[sums])])
            b.add(Op.MATMUL, **(fields | {"flags": int(Flag.LAST), "out": out}))

    return build


def _matmul(t: Target) -> Sweep:
    for dtype in t.matrix.tiles:
        most = min(t.matrix.accumulator_rows, 64)
        for rows in _some(1, min(16, most), most):
            yield f"matmul-{dtype}-{rows}", _product(t, dtype, rows)
        for steps in _some(1, t.matrix.alus, t.matrix.alus + 1, 3 * t.matrix.alus + 1):
            yield f"matmul-{dtype}-epilogue-{steps}", _product(t, dtype, min(16, most), steps=steps)
        yield f"matmul-{dtype}-sum", _product(t, dtype, min(16, most), flags=int(Flag.FIRST))
        few = [min(8, size) for size in t.matrix.tiles[dtype]]
        for field in ("a", "b", "c", "d", "out"):
            yield f"matmul-{dtype}-{field}-apart", _product(t, dtype, min(16, most), apart=field, k=few[0], n=few[1])


def _map(dtype: str, points: int, ops: list[str], *, apart: str = "", fields: str = "a") -> Build:
    """One vector instruction that applies ``ops`` to operand ``a`` one after another; others are added to it."""

    def build(b: Bench) -> None:
        loops = {f: _apart(b.target, points) if f == apart else _dense(points, dtype) for f in (*fields, "out")}
        program: list[tuple[object, ...]] = [("arg", (), dtype, 0)]
        for n in range(1, len(fields)):
            program += [("arg", (), dtype, n), ("add", (len(program) - 1, len(program)), dtype)]
        for op in ops:
            program.append((op, (len(program) - 1,) * SCALAR[op].arity, dtype))
        used = {f: b.zeros(dtype, loops[f]) for f in fields}
        b.add(Op.VECTOR, out=b.result(dtype, loops["out"]), pre=b.program(*program), count1=points, **used)

    return build


def _reduction(dtype: str, points: int, inner: int, reducer: str, post: int = 0) -> Build:
    def build(b: Bench) -> None:
        size = SIZE[dtype]
        a = b.zeros(dtype, [(points, inner * size)], [(inner, size)])
        fields = {"post": b.program(*_steps(post, dtype))} if post else {}
        b.add(
            Op.VECTOR,
            a=a,
            out=b.result(dtype, _dense(points, dtype)),
            reducer=REDUCER_CODES[reducer],
            count1=points,
            count2=inner,
            **fields,
        )

    return build


def _vector(t: Target) -> Sweep:
    unit = t.vector
    some = min(4 * unit.lanes, unit.tile)
    for points in _some(1, unit.lanes, unit.lanes + 1, some, min(16 * unit.lanes, unit.tile)):
        yield f"vector-f32-{points}", _map("f32", points, ["add"])
    yield "vector-f64", _map("f64", some, ["add"])
    yield "vector-i8", _map("i8", min(64 * unit.lanes + 1, unit.tile), ["add"])
    for steps in _some(unit.alus, unit.alus + 1, 3 * unit.alus + 1):
        yield f"vector-steps-{steps}", _map("f32", some, ["add"] * steps)
    for op in sorted(t.passes):
        dtype = "f32" if "f" in SCALAR[op].kinds else "i32"
        yield f"vector-{op}", _map(dtype, some, [op] * unit.alus)
    few = min(64, unit.tile)
    for n, field in enumerate("abcd"):
        yield f"vector-{field}-apart", _map("f32", few, [], apart=field, fields="abcd"[: max(2, n + 1)])
    yield "vector-out-apart", _map("f32", few, ["add"], apart="out")
    for inner in _some(2, 64, min(1000, unit.tile)):
        yield f"vector-sum-{inner}", _reduction("f32", 1, inner, "sum")
    yield "vector-sum-post", _reduction("f32", 4, min(16, unit.tile // 4), "sum", unit.alus + 1)
    yield "vector-chain", _reduction("f32", 4, min(50, unit.tile // 4), "chain")


def _copy(op: Op, dtype: str, points: int, apart: str = "", reducer: str = "") -> Build:
    """MOVE, GATHER or SCATTER of ``points`` elements; ``apart``: a, out or index."""

    def build(b: Bench) -> None:
        t = b.target
        loops = {f: _apart(t, points) if f == apart else _dense(points, dtype) for f in ("a", "out")}
        fields = {"a": b.zeros(dtype, loops["a"]), "out": b.result(dtype, loops["out"])}
        if op == Op.SCATTER:
            b.add(Op.MOVE, **fields, count1=points)
        if op != Op.MOVE:
            index = b.zeros("i32", _apart(t, points) if apart == "index" else _dense(points, "i32"))
            fields["gather"] = b.gather(index, 1, SIZE[dtype], 1)
        if reducer:
            fields["reducer"] = REDUCER_CODES[reducer]
        b.add(op, **fields, count1=points)

    return build


def _move(t: Target) -> Sweep:
    most = min(t.move.tile, 64 * t.line_bytes)
    for points in _some(1, min(t.line_bytes, most), most):
        yield f"move-{points}", _copy(Op.MOVE, "u8", points)
    for field in ("a", "out"):
        yield f"move-{field}-apart", _copy(Op.MOVE, "u8", min(64, most), field)


def _gather(t: Target) -> Sweep:
    for points in _some(1, min(64, t.move.tile)):
        yield f"gather-{points}", _copy(Op.GATHER, "f32", points)
    for field in ("index", "out"):
        yield f"gather-{field}-apart", _copy(Op.GATHER, "f32", min(64, t.move.tile), field)


def _scatter(t: Target) -> Sweep:
    for points in _some(1, min(64, t.move.tile)):
        yield f"scatter-{points}", _copy(Op.SCATTER, "f32", points)
        yield f"scatter-sum-{points}", _copy(Op.SCATTER, "f32", points, reducer="sum")


def _sort(t: Target) -> Sweep:
    most = min(sort_run(t), t.vector.tile)
    for rows, columns in sorted({(1, 2), (min(4, t.vector.tile // most), most), (2, min(100, most))}):

        def build(b: Bench, rows: int = rows, columns: int = columns) -> None:
            loops = [(rows, columns * 4)], [(columns, 4)]
            b.add(Op.SORT, a=b.zeros("i32", *loops), out=b.result("i32", *loops), count1=rows, count2=columns)

        yield f"sort-{rows}x{columns}", build


def _transfer(op: Op, count: int, apart: bool = False) -> Build:
    def build(b: Bench) -> None:
        loops = _apart(b.target, count) if apart else _dense(count, "u8")
        fields: dict[str, int] = {}
        if op == Op.SEND:
            fields = {"a": b.zeros("u8", loops), "port": b.port("u8", count, output=True)}
        else:
            fields["out"] = b.result("u8", loops)
            if op == Op.FETCH:
                fields["offset"] = b.external(count)
            else:
                fields["port"] = b.port("u8", count, output=False)
        b.add(op, count1=count, **fields)

    return build


def _link(op: Op, unit: str) -> Callable[[Target], Sweep]:
    def sweep(t: Target) -> Sweep:
        tile, rate = t.unit(unit).tile, getattr(t, unit).bytes_per_cycle
        name = op.name.lower()
        for count in _some(1, min(rate, tile), min(10 * rate + 1, tile), min(tile, 4096)):
            yield f"{name}-{count}", _transfer(op, count)
        yield f"{name}-apart", _transfer(op, min(64, tile), apart=True)

    return sweep


def _branch(t: Target) -> Sweep:
    def build(b: Bench) -> None:
        condition = b.zeros("bool", [(1, 1)])
        a, out = b.zeros("u8", _dense(1, "u8")), b.result("u8", _dense(1, "u8"))
        b.add(Op.BRANCH, a=condition, flags=int(Flag.UNLESS), count3=0)
        b.add(Op.MOVE, a=a, out=out)

    if t.move.instances:
        yield "branch", build


SWEEPS: dict[Op, Callable[[Target], Sweep]] = {
    Op.LOADW: _loadw,
    Op.MATMUL: _matmul,
    Op.VECTOR: _vector,
    Op.SORT: _sort,
    Op.MOVE: _move,
    Op.GATHER: _gather,
    Op.SCATTER: _scatter,
    Op.RECV: _link(Op.RECV, "link_in"),
    Op.SEND: _link(Op.SEND, "link_out"),
    Op.FETCH: _link(Op.FETCH, "external"),
    Op.BRANCH: _branch,
}
