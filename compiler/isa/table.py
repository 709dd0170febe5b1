"""The instruction table: one entry per instruction, from which everything else is made.

Encoder, decoder, disassembler, simulator, the compiler's cost formulas and the page ``docs/compiler/isa.md``
read this table; nothing about an instruction is written anywhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from compiler.isa import meaning, timing
from compiler.isa.flow import POINTS, ROWS, WHOLE, Pace
from compiler.isa.geometry import Range, moved_groups, scattered, touches
from compiler.isa.instruction import Flag, Instruction, Op
from compiler.isa.machine import Machine
from compiler.isa.stream import Stream
from compiler.isa.tables import Tables

Formula = Callable[[Machine, Tables, Instruction], int]


@dataclass(frozen=True)
class Operand:
    """An operand stream: the field that refers to it, which ranges select its ``g1`` and ``g2``, which port carries it.

    ``rows`` and ``inner`` are the number of a range field pair (``start1``/``count1`` and so on), 0 for none. ``flow``: by
    what the instruction takes its items in turn (``compiler.isa.flow``).
    """

    field: str
    rows: int
    inner: int
    port: str
    write: bool = False
    required: bool = True
    flow: str = WHOLE


@dataclass(frozen=True)
class Spec:
    """One instruction. ``fields``: those it uses besides opcode, unit, cycle and source; all others are 0."""

    op: Op
    unit: str
    fields: tuple[str, ...]
    operands: tuple[Operand, ...]
    meaning: Callable[..., meaning.Result]
    beats: Formula
    latency: Formula
    cycles_text: str
    text: str
    why: str
    group: Formula = timing.alone  # rows (or points) that make up one item
    group_text: str = ""


def _base(unit: str) -> Formula:
    def latency(machine: Machine, tables: Tables, i: Instruction) -> int:
        return machine.unit(unit).latency

    return latency


_TILE1 = ("g0", "start1", "count1")
_TILE2 = (*_TILE1, "start2", "count2")
_TILE3 = (*_TILE2, "start3", "count3")

TABLE: Final[dict[Op, Spec]] = {
    spec.op: spec
    for spec in (
        Spec(
            Op.LOADW,
            "weights",
            ("slot", "blocks", "a", *_TILE2, "start3", "offset"),
            (Operand("a", 1, 2, "a", flow=ROWS),),
            meaning.loadw,
            timing.loadw_beats,
            _base("weights"),
            "ceil(K x N x size / weights.bytes_per_cycle)",
            "Fill a weight slot of plane `unit` with the K x N tile that rows `start1`, `count1` and columns `start2`, "
            "`count2` of `a` name. With `blocks` B the slot holds B blocks of `count2` columns side by side: row r belongs "
            "to block (r / `start3`) mod B and gives that block's columns; all other cells are off. With `offset` n so are those "
            "whose element a guard of `a` excludes, and n are on. The slot changes from its "
            "issue + latency on: products that have read it by then use what was there before.",
            "Weight-stationary arrays have a load path of their own, so that the next tile's weights arrive while this "
            "one computes. A cell without a weight is off: products of several small matrices (groups, heads) share one pass, "
            "and a filter that slides is a band, in which one row serves the windows of many positions. The guards that pad "
            "an image switch the cells.",
        ),
        Spec(
            Op.MATMUL,
            "matrix",
            ("slot", "blocks", "flags", "row", "a", "b", "c", "d", "out", "post", *_TILE3, "offset"),
            (
                Operand("a", 1, 2, "a", flow=ROWS),
                Operand("b", 1, 3, "b", required=False, flow=ROWS),
                Operand("c", 1, 3, "c", required=False, flow=ROWS),
                Operand("d", 1, 3, "d", required=False, flow=ROWS),
                Operand("out", 1, 3, "out", write=True, required=False, flow=ROWS),
            ),
            meaning.matmul,
            timing.matmul_beats,
            _base("matrix"),
            "T x max(1, ceil(passes(post) / matrix.alus)) with `last`, else T",
            "Multiply T = `count1` rows of `a` (K = `count2` inner points) by the K x N weights in `slot` (N = `count3`) "
            "and add them to accumulator rows `row` ... `row + T - 1`: from 0 with `first`, k ascending over the cells that are "
            "on (`blocks` and `offset` as loaded: K x N / `blocks` of them, or `offset`). With `last` the "
            "sums pass program `post` (argument -1 is the sum, 0, 1, 2 are `b`, `c`, `d`) and are written to `out`.",
            "The array takes one row per cycle; its cells multiply nine-bit signed values, so bytes with and without sign may "
            "meet, and sum them in 32 bits; the epilogue's arithmetic units sit at its output, so that bias, "
            "residual and activation cost no trip through memory.",
        ),
        Spec(
            Op.VECTOR,
            "vector",
            ("flags", "a", "b", "c", "d", "out", "pre", "reducer", "post", *_TILE2),
            (
                Operand("a", 1, 2, "a", required=False, flow=ROWS),
                Operand("b", 1, 2, "b", required=False, flow=ROWS),
                Operand("c", 1, 2, "c", required=False, flow=ROWS),
                Operand("d", 1, 2, "d", required=False, flow=ROWS),
                Operand("out", 1, 0, "out", write=True, flow=ROWS),
            ),
            meaning.vector,
            timing.vector_beats,
            timing.vector_latency,
            "ceil(P x R / lanes) (chain: ceil(P / lanes) x R) x max(1, ceil((passes(pre) + 1 if reducer) / vector.alus)) "
            "+ ceil(P / lanes) x ceil(passes(post) / vector.alus)",
            "For each of P = `count1` points evaluate program `pre` at each of R = `count2` inner points (the whole of "
            "`g2`), reduce over them by `reducer` in the fixed tree (`chain`: a sum in ascending order, a lane per result), and "
            "pass program `post` (argument -1 is the reduced value). "
            "Without reducer R is 1 and `pre` gives the result; without `pre` operand `a` is reduced as it is.",
            "Lanes of arithmetic units in a row, a chain of operations per cycle; reductions go through an adder tree "
            "across the lanes.",
            timing.vector_group,
            "the points that fill the lanes once: lanes / R in a tree, at least 1, else lanes",
        ),
        Spec(
            Op.MOVE,
            "move",
            ("a", "out", *_TILE2),
            (Operand("a", 1, 2, "a", flow=POINTS), Operand("out", 1, 2, "out", write=True, flow=POINTS)),
            meaning.move,
            timing.one_beat,
            _base("move"),
            "1",
            "Copy `count1` x `count2` elements from `a` to `out`; elements that a guard of `a` excludes are its fill.",
            "Permutation networks beside the memory slices change layouts without arithmetic.",
        ),
        Spec(
            Op.GATHER,
            "move",
            ("a", "out", "gather", *_TILE2),
            (Operand("a", 1, 2, "a"), Operand("out", 1, 2, "out", write=True, flow=POINTS)),
            meaning.move,
            timing.one_beat,
            _base("move"),
            "1",
            "Copy elements whose place is itself data: to the address of `a` each axis of `gather` adds its stride times "
            "a coordinate read from an index stream. A coordinate outside its extent is a fault. Hazards cover every "
            "address that an index could name.",
            "Memory slices accept an address stream in place of a counter; tables and embeddings need it.",
        ),
        Spec(
            Op.SCATTER,
            "move",
            ("a", "out", "gather", "reducer", *_TILE2),
            (Operand("a", 1, 2, "a"), Operand("out", 1, 2, "out", write=True)),
            meaning.move,
            timing.scatter_beats,
            _base("move"),
            "with a reducer count1 x count2, else 1",
            "Put `count1` x `count2` elements of `a` to places that are data, rows ascending and along each row: to the address "
            "of `out` each axis of `gather` adds its stride times a coordinate read from an index stream. With `reducer` (1 sum, "
            "2 max, 3 min, 4 prod) the element there is combined with the new one, the old first. What is written to is read "
            "first (`old`, through the ports of `out`), so it must hold something. A coordinate outside its extent is a fault. "
            "Hazards cover every address that an index could name.",
            "The address stream that reads tables can write them: a line is read, changed and written back, and a result is "
            "forwarded to the next element when both have one place. Histograms, caches and compaction need it.",
        ),
        Spec(
            Op.SORT,
            "vector",
            ("flags", "a", "out", *_TILE2),
            (Operand("a", 1, 2, "a"), Operand("out", 1, 2, "out", write=True)),
            meaning.sort,
            timing.sort_beats,
            _base("vector"),
            "ceil(count1 x 2**s / lanes) x s (s + 1) / 2 with s = ceil(log2(count2))",
            "Put the `count2` whole numbers of each of `count1` rows of `a` in ascending order into `out`.",
            "A bitonic network: s (s + 1) / 2 passes of compare and exchange between lanes, which the adder tree's wiring "
            "already connects. Keys carry the place they come from in their low bits, so no second result is needed.",
        ),
        Spec(
            Op.RECV,
            "link_in",
            ("port", "offset", "out", *_TILE2),
            (Operand("out", 1, 2, "out", write=True, flow=POINTS),),
            meaning.move,
            timing.recv_beats,
            _base("link_in"),
            "ceil(bytes / link_in.bytes_per_cycle)",
            "Take `count1` x `count2` consecutive elements of host tensor `port` from byte `offset` on into `out`.",
            "The host link delivers a byte stream at a fixed rate; where it lands is an affine address.",
        ),
        Spec(
            Op.SEND,
            "link_out",
            ("port", "offset", "a", *_TILE2),
            (Operand("a", 1, 2, "a", flow=POINTS),),
            meaning.move,
            timing.send_beats,
            _base("link_out"),
            "ceil(bytes / link_out.bytes_per_cycle)",
            "Give `count1` x `count2` elements of `a` to host tensor `port` from byte `offset` on.",
            "The other direction of the link; its own wires, so that both run at once.",
        ),
        Spec(
            Op.FETCH,
            "external",
            ("offset", "out", *_TILE2),
            (Operand("out", 1, 2, "out", write=True, flow=POINTS),),
            meaning.move,
            timing.fetch_cycles,
            _base("external"),
            "ceil(bytes / external.bytes_per_cycle)",
            "Take `count1` x `count2` consecutive elements of external memory from byte `offset` on into `out`.",
            "Weights that on-chip memory cannot hold stream in from memory beside the chip, at the rate of its pins and ahead "
            "of their use; what lies there is written once, when the program is loaded.",
        ),
        Spec(
            Op.BRANCH,
            "control",
            ("flags", "a", *_TILE3),
            (Operand("a", 1, 2, "a", required=False),),
            meaning.branch,
            timing.one_beat,
            _base("control"),
            "1",
            "Read one truth value from `a`. When it is false (with `unless`: when it is true; without `a`: always) the next "
            "`count3` instructions are skipped, and everything behind them issues `start3` cycles earlier. Nothing may be under "
            "way when it issues or where it lands, and nothing issues before it has decided.",
            "The one instruction sequencer drops a stretch of instructions; waiting for an idle machine keeps all distances "
            "between instructions what the compiler proved, whichever way it goes.",
        ),
    )
}

COMMON: Final = ("opcode", "unit", "cycle", "source")


class Access(NamedTuple):
    """A piece of a stream that one instruction reads or writes. ``stream`` is a position in the table, ``flow`` the order
    in which its lines are touched."""

    role: str
    stream: int
    rows: Range
    inner: Range
    write: bool
    flow: str


_NONE: Final = (0, 1)

# By code, as plain numbers: each operand with the position of its field in an instruction.
_OPERANDS: Final = {
    int(op): tuple((Instruction._fields.index(operand.field), operand) for operand in spec.operands)
    for op, spec in TABLE.items()
}
_MATMUL, _SCATTER, _LAST = int(Op.MATMUL), int(Op.SCATTER), int(Flag.LAST)
_STREAMS: Final = slice(Instruction._fields.index("a"), Instruction._fields.index("out") + 1)


def _range(i: Instruction, number: int) -> Range:
    if number == 1:
        return i.start1, i.count1
    if number == 2:
        return i.start2, i.count2
    return (i.start3, i.count3) if number == 3 else _NONE


@lru_cache(maxsize=1 << 12)
def _operands(
    opcode: int, silent: bool, references: tuple[int, ...]
) -> tuple[tuple[str, int, int, int, bool, str], ...]:
    """Operands that an instruction has, each with its stream and the numbers of its ranges; ``references``: its streams."""
    given = ((references[place - _STREAMS.start], operand) for place, operand in _OPERANDS[opcode])
    return tuple(
        (operand.field, reference - 1, operand.rows, operand.inner, operand.write, operand.flow)
        for reference, operand in given
        if reference and not (silent and operand.write)
    )


def accesses(tables: Tables, i: Instruction) -> list[Access]:
    """Pieces that an instruction reads, in the table's order, then index streams, and the piece that it writes."""
    opcode = i.opcode
    silent = opcode == _MATMUL and not i.flags & _LAST  # its sums stay in the plane
    ranges = (_NONE, (i.start1, i.count1), (i.start2, i.count2), (i.start3, i.count3))
    found = [
        Access(role, stream, ranges[rows], ranges[inner], write, flow)
        for role, stream, rows, inner, write, flow in _operands(opcode, silent, i[_STREAMS])
    ]
    if opcode == _SCATTER:
        found.append(Access("old", i.out - 1, _range(i, 1), _range(i, 2), write=False, flow=WHOLE))
    if i.gather:
        rows, inner = _range(i, 1), _range(i, 2)
        axes = tables.gathers[i.gather - 1].axes
        found += [
            Access(f"index{n}", axis.index - 1, rows, inner, write=False, flow=WHOLE) for n, axis in enumerate(axes)
        ]
    return found


_MOVED: Final = {int(Op.GATHER): ("a",), int(Op.SCATTER): ("out", "old")}


def moved_by_data(i: Instruction, role: str) -> bool:
    """Whether index streams decide where an access goes."""
    return i.gather != 0 and role in _MOVED.get(i.opcode, ())


def fetched(tables: Tables, i: Instruction, access: Access) -> Stream:
    """The stream of an access as its line fetches count: what data moves is scattered along the groups that it moves."""
    stream = tables.streams[access.stream]
    if not moved_by_data(i, access.role):
        return stream
    return scattered(stream, moved_groups(stream, tables.gathers[i.gather - 1], tables.streams))


class Timing(NamedTuple):
    """``beats``: cycles that the unit is busy and reads last. ``latency``: cycles from issue to the first byte written."""

    beats: int
    latency: int

    @property
    def end(self) -> int:
        """Cycles from issue until what was written can be read."""
        return self.latency + self.beats


def unit_class(i: Instruction) -> str:
    return TABLE[Op(i.opcode)].unit


def time(machine: Machine, tables: Tables, i: Instruction) -> Timing:
    """Cycles of one instruction: the most of its arithmetic and of each stream's line touches over its ports."""
    spec = TABLE[Op(i.opcode)]
    ports = machine.unit(spec.unit).ports
    streams = []
    for access in accesses(tables, i):
        role = "index" if access.role.startswith("index") else "out" if access.role == "old" else access.role
        count = touches(fetched(tables, i, access), access.rows, access.inner, machine.line_bytes)
        streams.append((count, ports[role]))
    beats = max(spec.beats(machine, tables, i), timing.fetch_beats(streams))
    return Timing(beats, spec.latency(machine, tables, i))


def pace(machine: Machine, tables: Tables, i: Instruction, beats: int, flow: str) -> Pace:
    """How an instruction of so many beats works through an operand of that flow."""
    count = i.count1 * i.count2 if flow == POINTS else i.count1
    group = TABLE[i.opcode].group(machine, tables, i) if flow != WHOLE else count  # type: ignore[index]
    return Pace(timing.ceil_div(count, group), group, beats)
