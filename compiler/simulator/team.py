"""Instructions that are alike in all but addresses, executed together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from compiler.isa import Flag, Instruction, Op, Program, meaning, program_of
from compiler.isa.binary import Binary
from compiler.isa.meaning import Factors, Inputs, joined
from compiler.isa.numbering import numbered
from compiler.isa.timing import widest
from compiler.numerics.contract import BLOCK
from compiler.simulator.batch import Shape
from compiler.simulator.count import Tally
from compiler.simulator.forms import Array
from compiler.simulator.kept import Kept
from compiler.simulator.memory import Memory
from compiler.simulator.pieces import coordinates
from compiler.simulator.placing import Crowd, Unclear
from compiler.simulator.processor import Host
from compiler.simulator.sequence import Sequence as Order
from compiler.simulator.sequence import terms
from compiler.targets import Target

_AT_ONCE = 1 << 18  # elements worked on together: they stay in a cache
_SUMS, _FACTORS = BLOCK, 1 << 20  # of products: sums stay in a cache, factors are used up one after the other
_LAST = int(Flag.LAST)


@dataclass(frozen=True)
class Team:
    """``i``: one of the instructions; what they have in common holds for all. ``shapes``: by role, ``out`` too. ``load``: of
    the weights in constant memory that a product uses, ``run``, their rows per block, ``cells`` of them that are on, and ``on``,
    which those are (None: all). ``dtype``: of operand ``a``. ``fixed``: operands that are constant."""

    i: Instruction
    crowd: Crowd
    shapes: dict[str, Shape]
    pre: Program | None
    post: Program | None
    load: Shape | None = None
    run: int = 0
    cells: int = 0
    on: Array | None = None
    dtype: str = ""
    widest: int = 0
    fixed: frozenset[str] = frozenset()

    def step(self, terms: int) -> int:
        """How many are executed in one call; products of ``terms`` each."""
        i = self.i
        if i.opcode == Op.MATMUL:
            return max(1, min(_SUMS // (i.count1 * i.count3), _FACTORS // (terms * max(i.count1, i.count3))))
        sizes = [shape.size for shape in self.shapes.values()] + [i.count1 * max(i.count2, i.count3)]
        return max(1, (_FACTORS if i.opcode == Op.LOADW else _AT_ONCE) // max(sizes))


class Work:
    """One inference of a program under way."""

    def __init__(self, binary: Binary, target: Target, memory: Memory, host: Host, order: Order) -> None:
        count = len(binary.instructions)
        self.binary, self.memory, self.host, self.order = binary, memory, host, order
        self.tally = Tally(target)
        self._terms = terms(binary.instructions["count2"], order.before)
        self.constant = np.zeros(count, np.bool_)  # LOADWs of what is never written: read when a product needs it
        self.teams: list[Team] = []
        self._team_of = np.full(count, -1, np.int64)
        self._known: dict[tuple[object, ...], int] = {}
        self._shapes: list[Shape] = []
        self._numbers: dict[tuple[object, ...], int] = {}
        self._at: dict[str, Array] = {}
        self._shape_of: dict[str, Array] = {}
        self._tiles, self._rows = (  # what products of a plane multiply, kept until they leave it
            Kept(np.bincount(column[column >= 0], minlength=count)) for column in (order.weights, order.before)
        )

    # -- what is alike ----------------------------------------------------------------------------------------------------

    def shape(self, shape: Shape) -> int:
        """The number of a shape, the same for equal ones."""
        number = self._numbers.setdefault(shape.key, len(self._shapes))
        if number == len(self._shapes):
            self._shapes.append(shape)
        return number

    def place(self, role: str, members: Array, shapes: Array, at: Array) -> None:
        """Shapes and addresses of an operand of ``members``."""
        for table, values in ((self._shape_of, shapes), (self._at, at)):
            table.setdefault(role, np.full(len(self.constant), -1, np.int64))[members] = values

    def shapes_of(self, role: str) -> Array:
        """By instruction the number of an operand's shape."""
        return self._shape_of[role]

    def team(self, crowd: Crowd, columns: Sequence[Array]) -> Array:
        """The number of each member's team; ``columns``: what else than their kind decides it."""
        firsts, which = (
            numbered(columns) if columns else (np.zeros(1, np.int64), np.zeros(len(crowd.kind.members), int))
        )
        codes = []
        for n in firsts.tolist():
            member = int(crowd.kind.members[n])
            made = self._made(crowd, member)
            key = self._key(made, member)
            if key not in self._known:
                self._known[key] = len(self.teams)
                self.teams.append(made)
            codes.append(self._known[key])
        found = np.array(codes)[which]
        self._team_of[crowd.kind.members] = found
        return found

    def _made(self, crowd: Crowd, member: int) -> Team:
        i = crowd.kind.first
        shapes = {o.access.role: self._shapes[self._shape_of[o.access.role][member]] for o in crowd.operands}
        post = program_of(self.binary, i.post)
        wide = widest(self.binary, i) if i.opcode == Op.VECTOR else 0
        dtype = self.binary.streams[i.a - 1].dtype if i.a else ""
        load, run, cells, on = None, 0, 0, None
        if i.opcode == Op.MATMUL:
            loading = self.order.weights[member]
            rows, columns, run = (
                int(self.binary.instructions[name][loading]) for name in ("count1", "count2", "start3")
            )
            cells = i.offset or rows * columns
            weights = self._shapes[self._shape_of["a"][loading]]
            load = weights if self.constant[loading] else None
            on = _on(i, weights, (i.count2, i.count3 // max(1, i.blocks)))
        fixed = frozenset(operand.access.role for operand in crowd.operands if operand.fixed)
        return Team(i, crowd, shapes, program_of(self.binary, i.pre), post, load, run, cells, on, dtype, wide, fixed)

    def require_cells(self, i: Instruction, shapes: Array) -> None:
        """``Unclear`` unless a LOADW of each of these shapes turns on as many cells as it says."""
        for number in set(shapes.tolist()) if i.offset else ():
            _on(i, self._shapes[number], (i.count1, i.count2))

    def _key(self, team: Team, member: int) -> tuple[object, ...]:
        i = team.i
        indexed = any(step.op == "index" for program in (team.pre, team.post) if program for step in program.steps)
        alone = indexed or i.port or i.opcode == Op.FETCH
        shapes = tuple((role, self._shape_of[role][member]) for role in team.shapes)
        run = i.start3 if i.opcode == Op.LOADW else team.run
        return (
            i.opcode,
            i.flags,
            i.pre,
            i.post,
            i.reducer,
            i.blocks,
            i.count1,
            i.count2,
            i.count3,
            run,
            shapes,
            i.offset,
            team.load.key if team.load else None,
            None if team.on is None else team.on.tobytes(),
            int(team.crowd.kind.members[0]) if alone else -1,
            team.dtype,
            team.widest,
            team.fixed,
        )

    # -- executing --------------------------------------------------------------------------------------------------------

    def run(self, members: Array) -> None:
        """Execute instructions of one team that need nothing of each other."""
        team = self.teams[int(self._team_of[members[0]])]
        execute = _EXECUTE[team.i.opcode]
        for some in self._parts(team, members):
            result = execute(self, team, some)
            if result is not None:
                place, out = self._at["out"][some], team.shapes["out"]
                out.write(place, self.memory.data, result)
                out.mark(place, self.memory)

    def _parts(self, team: Team, members: Array) -> list[Array]:
        """Members in as many as are executed in one call."""
        if team.i.opcode in _ONE_BY_ONE:
            return [members[n : n + 1] for n in range(len(members))]
        if team.i.opcode == Op.LOADW:
            members = members[np.argsort(self._at["a"][members], kind="stable")]
        step = team.step(int(self._terms[members[0]]))
        return [members[n : n + step] for n in range(0, len(members), step)]

    def _read(self, team: Team, role: str, members: Array) -> Array:
        shape, at = team.shapes[role], self._at[role][members]
        if role not in team.fixed:
            shape.require(at, self.memory)
        if len(at) > 1 and (at == at[0]).all():  # one piece for all, and NumPy is told so
            return np.broadcast_to(shape.read(at[:1], self.memory.data), (len(at), *shape.shape))
        return shape.read(at, self.memory.data)

    def _operands(self, team: Team, members: Array) -> dict[str, Array]:
        return {role: self._read(team, role, members) for role in team.shapes if role != "out"}

    def _index(self, team: Team, members: Array) -> Callable[[int], Array]:
        """Loop coordinates as ``Processor`` has them, an array for each member."""
        i, crowd, records = team.i, team.crowd, self.binary.instructions[members]
        out = crowd.out
        assert out is not None
        users = (o for o in crowd.reads if o.stream.g2 and not (i.opcode == Op.MATMUL and o.access.role == "a"))
        inner = next(users, out)
        matmul = i.opcode == Op.MATMUL

        def index(loop: int) -> Array:
            g0, g1 = len(out.stream.g0), len(out.stream.g1)
            if loop < g0:
                rows = [coordinates(out.stream.g0, loop, n, 1) for n in records["g0"].tolist()]
                return np.stack(rows)[:, None, :]
            if loop < g0 + g1:
                rows = [coordinates(out.stream.g1, loop - g0, n, i.count1) for n in records["start1"].tolist()]
                return np.stack(rows)[:, :, None]
            starts, count = (records["start3"], i.count3) if matmul else (records["start2"], i.count2)
            rows = [coordinates(inner.stream.g2, loop - g0 - g1, n, count) for n in starts.tolist()]
            return np.stack(rows)[:, None, :]

        return index

    def _loadw(self, team: Team, members: Array) -> None:
        i = team.i
        firsts, which = numbered([self._at["a"][members]])  # planes that work on the same rows load the same
        tiles, shape = self._read(team, "a", members[firsts]), (len(firsts), i.count1, i.count2)
        if tiles.shape != shape or not tiles.flags.writeable or np.may_share_memory(tiles, self.memory.data):
            tiles = np.array(np.broadcast_to(tiles, shape))
        on = _on(i, team.shapes["a"], (i.count1, i.count2))
        if on is not None:
            tiles[:, ~on] = 0
        self._tiles.put(members, tiles, which)

    def _weights(self, team: Team, members: Array) -> Array:
        loads = self.order.weights[members]
        if team.load is None:
            return self._tiles.take(loads)
        at = self._at["a"][loads]
        tiles = team.load.read(at[:1] if (at == at[0]).all() else at, self.memory.data)
        if team.on is not None:
            tiles = np.where(team.on, tiles, tiles.dtype.type(0))
        return np.broadcast_to(tiles, (len(loads), team.i.count2, team.i.count3 // max(1, team.i.blocks)))

    def _matmul(self, team: Team, members: Array) -> Array | None:
        """Products are made when their sums leave the plane: all that one sum adds up at once."""
        i = team.i
        last = bool(i.flags & _LAST)
        a = np.broadcast_to(self._read(team, "a", members), (len(members), i.count1, i.count2))
        self.tally.product(i, team.dtype, a[0], team.cells, team.post if last else None, len(members))
        if not last:
            self._rows.put(members, a.copy() if np.may_share_memory(a, self.memory.data) else a)  # memory will change
            return None
        sums = self._sums(team, members, a)
        operands = {role: self._read(team, role, members) for role in team.shapes if role not in ("a", "out")}
        return meaning.epilogue(i, Inputs(operands, post=team.post, accumulated=sums, index=self._index(team, members)))

    def _sums(self, team: Team, members: Array, a: Array) -> Array:
        """What the sums are that ``members`` complete; products that they continue are alike too."""
        factors = [self._factors(team, members, a)]
        while (before := int(self.order.before[members[0]])) >= 0:
            members = self.order.before[members]
            factors.append(self._factors(self.teams[self._team_of[before]], members, self._rows.take(members)))
        sums = None
        for some in joined(factors[::-1]):
            sums = meaning.summed(sums, some)
        assert sums is not None
        return sums

    def _factors(self, team: Team, members: Array, a: Array) -> Factors:
        weights = self._weights(team, members)
        return meaning.factors(team.i, Inputs({"a": a}, weights=weights, run=team.run, on=team.on))

    def _vector(self, team: Team, members: Array) -> Array | None:
        i = team.i
        inputs = Inputs(self._operands(team, members), pre=team.pre, post=team.post, index=self._index(team, members))
        self.tally.elements(i, i.count1, i.count2, team.widest, team.pre, team.post, len(members))
        return meaning.vector(i, inputs)

    def _move(self, team: Team, members: Array) -> Array:
        return self._read(team, "a", members)

    def _offset(self, members: Array) -> int:
        """Where the one transfer begins on its other side, in bytes."""
        return int(self.binary.instructions["offset"][members[0]])

    def _recv(self, team: Team, members: Array) -> Array:
        i, size = team.i, team.shapes["out"].dtype.itemsize
        values = self.host.inputs[i.port - 1][self._offset(members) // size :][: i.count1 * i.count2]
        self.tally.bytes_in += values.nbytes
        return values.reshape(1, i.count1, i.count2)

    def _fetch(self, team: Team, members: Array) -> Array:
        i = team.i
        dtype, at = team.shapes["out"].dtype, self._offset(members)
        values = np.frombuffer(self.binary.external, dtype, i.count1 * i.count2, at)
        self.tally.external_in += values.nbytes
        return values.reshape(1, i.count1, i.count2)

    def _send(self, team: Team, members: Array) -> None:
        i, size = team.i, team.shapes["a"].dtype.itemsize
        first = self._offset(members) // size
        place = slice(first, first + i.count1 * i.count2)
        sent = self.host.sent[i.port - 1][place]
        if sent.any():
            raise Unclear
        sent[:] = True
        values = np.broadcast_to(self._read(team, "a", members)[0], (i.count1, i.count2)).reshape(-1)
        self.host.outputs[i.port - 1].reshape(-1)[place] = values
        self.tally.bytes_out += values.nbytes


def _on(i: Instruction, weights: Shape, shape: tuple[int, int]) -> Array | None:
    """Which cells of a tile are on, for an instruction that says how many; None when all are."""
    if not i.offset:
        return None
    on = np.ones(shape, np.bool_) if weights.inside is None else np.broadcast_to(weights.inside, shape)
    if np.count_nonzero(on) != i.offset:
        raise Unclear
    return on


_ONE_BY_ONE = frozenset(map(int, (Op.RECV, Op.SEND, Op.FETCH)))
_EXECUTE: dict[int, Callable[[Work, Team, Array], Array | None]] = {
    Op.LOADW: Work._loadw,
    Op.MATMUL: Work._matmul,
    Op.VECTOR: Work._vector,
    Op.MOVE: Work._move,
    Op.RECV: Work._recv,
    Op.SEND: Work._send,
    Op.FETCH: Work._fetch,
}
