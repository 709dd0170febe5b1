"""The processor: takes instructions in issue order, refuses what breaks a rule, and computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.isa import NUMPY, REDUCERS, Flag, Op, Program, meaning, program_of
from compiler.isa.binary import Binary
from compiler.isa.meaning import Inputs
from compiler.isa.timing import widest
from compiler.numerics.scatter import scatter
from compiler.simulator.count import Tally
from compiler.simulator.course import check_branches
from compiler.simulator.forms import Array
from compiler.simulator.memory import HazardError, Memory, Window
from compiler.simulator.pieces import Piece, coordinates, spread
from compiler.simulator.prepare import Preparation, Prepared, gathered_places
from compiler.targets import Target

_FIRST, _LAST = int(Flag.FIRST), int(Flag.LAST)  # plain numbers: instructions are many


@dataclass
class Slot:
    """What a weight slot holds from ``begin`` on: its tile, when it is loaded, its blocks and the rows of a run, the cells
    that are on (0 and None: all), until when products read it."""

    tile: Array
    dtype: str
    begin: int
    ready: int
    blocks: int
    run: int
    cells: int = 0
    on: Array | None = None
    read_end: int = 0


class Host:
    """Host tensors of one inference: what it is fed, and what has come out of it. ``copy``: which arena it works in."""

    def __init__(self, binary: Binary, feed: dict[str, Array], copy: int = 0) -> None:
        self.copy = copy
        self.inputs = {n: feed[p.name].reshape(-1) for n, p in enumerate(binary.ports) if not p.output}
        self.outputs = {n: np.zeros(p.shape, NUMPY[p.dtype]) for n, p in enumerate(binary.ports) if p.output}
        self.sent = {n: np.zeros(array.size, np.bool_) for n, array in self.outputs.items()}


class Processor:
    """One processor with one program loaded. ``issue`` runs one instruction of one inference."""

    def __init__(self, binary: Binary, target: Target) -> None:
        self.binary = binary
        self.target = target
        self.preparation = Preparation(binary, target)
        self.program = self.preparation.run()
        check_branches(self.preparation, self.program)
        self.memory = Memory(binary, target.line_bytes)
        for p in self.program:
            for piece in (*p.reads.values(), *((p.out,) if p.out else ())):
                self.memory.note_touched(piece)
        self.free: dict[str, int] = {}
        self.slots: dict[tuple[int, int], list[Slot]] = {}  # what is in use, and what is on its way
        self.sums: dict[int, dict[int, Array]] = {}
        self._widest: dict[int, int] = {}
        self.begun = 0  # inferences so far
        self.paced = False  # the program's interval has been checked

    def begin(self, feed: dict[str, Array]) -> Host:
        """The next inference, in the next of the arenas."""
        host = Host(self.binary, feed, self.begun % self.binary.memory.copies)
        self.begun += 1
        return host

    def _window(self, piece: Piece, host: Host) -> Window:
        return self.memory.windows[host.copy if piece.moves else 0]

    def issue(self, p: Prepared, cycle: int, host: Host, tally: Tally) -> bool:
        """Check and execute ``p`` at ``cycle``; ``SimulationError`` when the processor must not. Whether it skips something."""
        try:
            return self._issue(p, cycle, host, tally)
        except HazardError as error:
            raise self.preparation.error(p.number, p.i, str(error), cycle) from None

    def _issue(self, p: Prepared, cycle: int, host: Host, tally: Tally) -> bool:
        free = self.free.get(p.unit, 0)
        if free > cycle:
            raise HazardError(f"the unit is busy until cycle {free}")
        beats, latency = p.timing
        self.free[p.unit] = cycle + beats
        self._check_reads(p, cycle, host)
        out = p.out
        if out is not None:
            window = self._window(out, host)
            window.check_write(out.lines, p.spans["out"][0] + cycle)
            for check in p.checks:
                if check.piece is out:  # it writes what it reads
                    window.note_read(check.lines, check.end + cycle)
        result = _EXECUTE[p.i.opcode](self, p, cycle, host, tally)
        end = cycle + latency + beats
        if out is not None and result is not None:
            out.write(window.data, result)
            window.note_write(out, p.spans["out"][1] + cycle)
        tally.moved(p.read_bytes, write=False)
        tally.moved(p.out_bytes, write=True)
        tally.end = max(tally.end, end)
        return p.out is None and result is not None and bool(result.all())

    def _check_reads(self, p: Prepared, cycle: int, host: Host) -> None:
        """What is read is there and was written; noted is until when, but for what ``p`` itself writes."""
        windows = self.memory.windows
        for piece, lines, begin, _, _ in p.checks:
            windows[host.copy if piece.moves else 0].check_read(lines, begin + cycle)
        for piece, _, _, _, moved in p.checks:
            if not moved:
                windows[host.copy if piece.moves else 0].check_defined(piece)
        for piece, lines, _, end, _ in p.checks:
            if piece is not p.out:
                windows[host.copy if piece.moves else 0].note_read(lines, end + cycle)

    def _read(self, p: Prepared, role: str, host: Host) -> Array:
        piece = p.reads[role]
        return piece.read(self._window(piece, host).data)

    def _operands(self, p: Prepared, host: Host) -> dict[str, Array]:
        return {role: self._read(p, role, host) for role in p.reads}

    def _program(self, reference: int) -> Program | None:
        return program_of(self.binary, reference)

    def _index(self, p: Prepared) -> Callable[[int], Array]:
        """Loop coordinates for a scalar program: loops of ``g0`` and ``g1`` of the result, then of the shared ``g2``."""
        out = p.out
        assert out is not None
        i = p.i
        users = (q for role, q in p.reads.items() if q.stream.g2 and not (i.opcode == Op.MATMUL and role == "a"))
        inner = next(users, out)

        def index(loop: int) -> Array:
            g0, g1 = len(out.stream.g0), len(out.stream.g1)
            if loop < g0:
                return coordinates(out.stream.g0, loop, out.g0, 1).reshape(1, 1)
            if loop < g0 + g1:
                return coordinates(out.stream.g1, loop - g0, *out.rows).reshape(-1, 1)
            return coordinates(inner.stream.g2, loop - g0 - g1, *inner.inner).reshape(1, -1)

        return index

    def _loadw(self, p: Prepared, cycle: int, host: Host, tally: Tally) -> None:
        i = p.i
        begin = cycle + p.timing.latency
        queue = self.slots.setdefault((i.unit, i.slot), [])
        while len(queue) > 1 and queue[1].begin <= cycle:
            del queue[0]
        if queue and queue[-1].read_end > begin:
            raise HazardError(
                f"slot {i.slot} is overwritten at cycle {begin} while products read it until {queue[-1].read_end}"
            )
        if queue and queue[-1].ready > begin:
            raise HazardError(f"slot {i.slot} is overwritten at cycle {begin} while it loads until {queue[-1].ready}")
        piece = p.reads["a"]
        tile = np.array(spread(self._read(p, "a", host), (i.count1, i.count2)))
        on = None
        if i.offset:
            on = np.ones(tile.shape, np.bool_) if piece.inside is None else spread(piece.inside, tile.shape)
            if np.count_nonzero(on) != i.offset:
                raise HazardError(f"{np.count_nonzero(on)} cells of slot {i.slot} are on, not {i.offset}")
            tile[~on] = 0
        queue.append(Slot(tile, piece.stream.dtype, begin, cycle + p.timing.end, i.blocks, i.start3, i.offset, on))

    def _matmul(self, p: Prepared, cycle: int, host: Host, tally: Tally) -> Array | None:
        i = p.i
        slot = self._slot(p, cycle)
        slot.read_end = max(slot.read_end, cycle + p.timing.beats)
        a = spread(self._read(p, "a", host), (i.count1, i.count2))
        open_sums = self.sums.setdefault(i.unit, {})
        before = self._accumulated(p, open_sums)
        inputs = Inputs({"a": a}, accumulated=before, weights=slot.tile, run=slot.run, on=slot.on)
        sums = meaning.matmul(i, inputs)
        assert sums is not None
        last = bool(i.flags & _LAST)
        post = self._program(i.post) if last else None
        tally.product(i, p.reads["a"].stream.dtype, a, slot.cells or slot.tile.size, post)
        if not last:
            open_sums[i.row] = sums
            return None
        open_sums.pop(i.row, None)
        operands = {role: self._read(p, role, host) for role in p.reads if role != "a"}
        return meaning.epilogue(i, Inputs(operands, post=post, accumulated=sums, index=self._index(p)))

    def _slot(self, p: Prepared, cycle: int) -> Slot:
        """The weights that are in the product's slot from its first cycle to its last."""
        i = p.i
        queue = self.slots.get((i.unit, i.slot))
        if not queue:
            raise HazardError(f"slot {i.slot} holds no weights")
        at = max((n for n, slot in enumerate(queue) if slot.begin <= cycle), default=0)
        slot, until = queue[at], cycle + p.timing.beats
        if slot.ready > cycle:
            raise HazardError(f"the weights of slot {i.slot} arrive at cycle {slot.ready}")
        if at + 1 < len(queue) and queue[at + 1].begin < until:
            raise HazardError(
                f"it reads slot {i.slot} until cycle {until}, which is overwritten at {queue[at + 1].begin}"
            )
        if slot.blocks != i.blocks:
            raise HazardError(f"slot {i.slot} holds {slot.blocks} blocks, the product needs {i.blocks}")
        if slot.cells != i.offset:
            raise HazardError(f"slot {i.slot} has {slot.cells} cells on, the product needs {i.offset}")
        if slot.tile.shape != (i.count2, i.count3 // max(1, i.blocks)):
            raise HazardError(
                f"slot {i.slot} holds {slot.tile.shape} weights, the product needs {(i.count2, i.count3)}"
            )
        dtype = p.reads["a"].stream.dtype
        if slot.dtype != dtype and {slot.dtype, dtype} != {"i8", "u8"}:
            raise HazardError(f"slot {i.slot} holds {slot.dtype}, the operand is {dtype}")
        return slot

    def _accumulated(self, p: Prepared, open_sums: dict[int, Array]) -> Array | None:
        """Sums that a product continues; None when it starts new ones."""
        i = p.i
        if i.flags & _FIRST:
            for row, sums in open_sums.items():
                if row < i.row + i.count1 and i.row < row + len(sums):
                    raise HazardError(
                        f"accumulator rows {i.row} to {i.row + i.count1} still hold sums of rows from {row}"
                    )
            return None
        before = open_sums.get(i.row)
        if before is None or before.shape != (i.count1, i.count3):
            raise HazardError(f"accumulator rows from {i.row} do not hold {i.count1} x {i.count3} sums to continue")
        dtype = meaning.accumulator(p.reads["a"].stream.dtype)
        if before.dtype != NUMPY[dtype]:
            raise HazardError(f"accumulator rows from {i.row} hold {before.dtype} sums, the product gives {dtype}")
        return before

    def _vector(self, p: Prepared, cycle: int, host: Host, tally: Tally) -> Array | None:
        i = p.i
        pre, post = self._program(i.pre), self._program(i.post)
        result = meaning.vector(i, Inputs(self._operands(p, host), pre=pre, post=post, index=self._index(p)))
        if p.number not in self._widest:
            self._widest[p.number] = widest(self.binary, i)
        tally.elements(i, i.count1, i.count2, self._widest[p.number], pre, post)
        return result

    def _move(self, p: Prepared, cycle: int, host: Host, tally: Tally) -> Array:
        return self._read(p, "a", host)

    def _gather(self, p: Prepared, cycle: int, host: Host, tally: Tally) -> Array:
        axes = self.binary.gathers[p.i.gather - 1].axes
        values = [self._read(p, f"index{n}", host) for n in range(len(axes))]
        piece = p.reads["a"]
        window = self._window(piece, host)
        places = gathered_places(piece, axes, values)
        if isinstance(places, str):
            raise HazardError(places)
        if not (window.shadow[places if piece.inside is None else places[piece.inside]] == 255).all():
            raise HazardError("an index names memory that nothing has written")
        if piece.inside is None:
            return np.asarray(window.data.view(piece.dtype)[places // piece.dtype.itemsize])
        found = window.data.view(piece.dtype)[np.where(piece.inside, places // piece.dtype.itemsize, 0)]
        return np.where(piece.inside, found, np.asarray(piece.stream.fill, piece.dtype))

    def _branch(self, p: Prepared, cycle: int, host: Host, tally: Tally) -> Array | None:
        return meaning.branch(p.i, Inputs(self._operands(p, host)))

    def _scatter(self, p: Prepared, cycle: int, host: Host, tally: Tally) -> None:
        i, piece = p.i, p.reads["old"]
        window = self._window(piece, host)
        axes = self.binary.gathers[i.gather - 1].axes
        places = gathered_places(piece, axes, [self._read(p, f"index{n}", host) for n in range(len(axes))])
        if isinstance(places, str):
            raise HazardError(places)
        if not (window.shadow[places] == 255).all():
            raise HazardError("an index names memory that nothing has written")
        shape = (i.count1, i.count2)
        values = np.array(np.broadcast_to(self._read(p, "a", host), shape))
        where = np.broadcast_to(places, shape) // piece.dtype.itemsize
        scatter(window.data.view(piece.dtype), where, values, REDUCERS[i.reducer] if i.reducer else None)
        window.ready[piece.lines] = cycle + p.timing.end
        tally.scattered(p)

    def _sort(self, p: Prepared, cycle: int, host: Host, tally: Tally) -> Array | None:
        tally.sorted(p)
        return meaning.sort(p.i, Inputs(self._operands(p, host)))

    def _recv(self, p: Prepared, cycle: int, host: Host, tally: Tally) -> Array:
        i, piece = p.i, p.out
        assert piece is not None
        at = i.offset // piece.dtype.itemsize
        values = host.inputs[i.port - 1][at : at + i.count1 * i.count2]
        tally.bytes_in += values.nbytes
        return values.reshape(i.count1, i.count2)

    def _fetch(self, p: Prepared, cycle: int, host: Host, tally: Tally) -> Array:
        i, piece = p.i, p.out
        assert piece is not None
        values = np.frombuffer(self.binary.external, piece.dtype, i.count1 * i.count2, i.offset)
        tally.external_in += values.nbytes
        return values.reshape(i.count1, i.count2)

    def _send(self, p: Prepared, cycle: int, host: Host, tally: Tally) -> None:
        i, piece = p.i, p.reads["a"]
        at = i.offset // piece.dtype.itemsize
        place = slice(at, at + i.count1 * i.count2)
        if host.sent[i.port - 1][place].any():
            raise HazardError("it sends a part of an output a second time")
        host.sent[i.port - 1][place] = True
        values = spread(self._read(p, "a", host), (i.count1, i.count2)).reshape(-1)
        host.outputs[i.port - 1].reshape(-1)[place] = values
        tally.bytes_out += values.nbytes


_EXECUTE: dict[int, Callable[[Processor, Prepared, int, Host, Tally], Any]] = {
    Op.LOADW: Processor._loadw,
    Op.MATMUL: Processor._matmul,
    Op.VECTOR: Processor._vector,
    Op.MOVE: Processor._move,
    Op.GATHER: Processor._gather,
    Op.SCATTER: Processor._scatter,
    Op.SORT: Processor._sort,
    Op.RECV: Processor._recv,
    Op.SEND: Processor._send,
    Op.FETCH: Processor._fetch,
    Op.BRANCH: Processor._branch,
}
