"""Earliest times and least remaining times of operations: the heads and tails of the latency bound.

``first``: no element of a value can be read before. ``ready(box)``: no box of that many elements of a value is complete
before. ``start``: no unit can work on an operation (on data, not on padding) before; where that says only when all of an
operation's work is left, a part of its output has ``early``. ``tail``: after the last unit-cycle of an operation the program
still lasts so long.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from math import prod

from compiler.bounds import pinned, places
from compiler.bounds.barriers import Bodies
from compiler.bounds.names import behind
from compiler.bounds.pace import ANYWHERE, ELSEWHERE, ON_PLANES, Pace
from compiler.bounds.reads import Reading
from compiler.bounds.shape import Box, Places
from compiler.bounds.ways import Ways
from compiler.ir import Compute, Join, Node, Reshape, Scatter, Sort
from compiler.isa import LinkUnit, Machine
from compiler.isa.timing import ceil_div

DEEP = 128  # operations behind each other that are followed for one box; the first element says something, too
MANY = 64  # boxes of one value that are told apart: running sums of n elements would ask for n of them at every step


def transfer(size: int, link: LinkUnit) -> int:
    """Cycles of a link for a tensor; an instruction carries a part of one."""
    return ceil_div(size, link.bytes_per_cycle * link.instances)


class Times:
    """Heads and tails for one graph on one machine. Values that are constants or state are there from the beginning.

    ``planes``, ``elsewhere``: outputs of contractions of which it is known that they run on the planes, or do not. ``like``:
    times at which less of that is known; they stay what they are where nothing before, or nothing behind, is known better.
    """

    def __init__(
        self,
        ways: Ways,
        machine: Machine,
        planes: frozenset[str] = frozenset(),
        elsewhere: frozenset[str] = frozenset(),
        bodies: Bodies | None = None,
        like: Times | None = None,
    ) -> None:
        self.ways, self.machine, self._bodies = ways, machine, bodies
        self.planes, self.elsewhere = planes, elsewhere
        self.graph = graph = ways.graph
        self.pace = Pace(graph, machine, planes, elsewhere, ways.counted)
        self._step = {node.output: self.pace.step(node) for node in graph.nodes}
        self._latency = {node.output: self.pace.latency(node) for node in graph.nodes}
        self._all_of: dict[str, dict[str, int]] = {}
        self._ready: dict[tuple[str, Box], int] = {}
        self._boxes: dict[str, int] = defaultdict(int)
        self._apart: dict[tuple[str, Places], int] = {}
        self._pinned: dict[tuple[str, Box, pinned.Pins], int] = {}
        self._depth = 0
        self._rest: dict[str, int] = {}
        self.start: dict[str, int] = {}
        self.early: dict[str, int] = {}
        self.first: dict[str, int] = dict.fromkeys(self.ways.resident, 0)
        for name in graph.inputs:
            self.first[name] = 1 + machine.link_in.latency
        if like is not None:
            self._keep(like, (planes - like.planes) | (elsewhere - like.elsewhere))
        for node in graph.nodes:
            if node.output not in self.start:
                self._head(node)
        self.tail = self._tails()

    def _keep(self, like: Times, known: frozenset[str]) -> None:
        """Take over what does not depend on operations of which more is ``known``."""
        behind, before = self.ways.behind(known), self.ways.before(known)
        self._ready = {key: cycles for key, cycles in like._ready.items() if key[0] not in behind}
        self._apart = {key: cycles for key, cycles in like._apart.items() if key[0] not in behind}
        self._pinned = {key: cycles for key, cycles in like._pinned.items() if key[0] not in behind}
        self.first |= _without(like.first, behind)
        self.start, self.early = _without(like.start, behind), _without(like.early, behind)
        self._rest = _without(like._rest, before)

    # -- heads ----------------------------------------------------------------------------------------------------------

    def _head(self, node: Node) -> None:
        name = node.output
        if isinstance(node, Scatter | Sort):  # an element may come from the data alone, or from any place of the input
            source = node.data if isinstance(node, Scatter) else node.input
            self.start[name] = self.first[name] = self.first[source]
            return
        sure = [self.first[v] for v, always in self.ways.sure[name] if always]
        if self.pace.is_name(node):
            all_sure = len(sure) == len(self.ways.sure[name])
            self.start[name] = self.first[name] = min(sure, default=0) if all_sure else 0
            return
        self.early[name], self.start[name] = self._earliest(node, max(sure, default=0))
        done = (self._for_one(node, r) + self._way(name, r.value) for r in self.ways.readings[name])
        self.first[name] = max(self.start[name] + self._step[name], *done, 0)

    def _way(self, output: str, value: str, kind: int = ANYWHERE) -> int:
        """Cycles from an element of a value to one of an operation's output that reads it, on that ``kind`` of unit."""
        step = self.pace.step(self.ways.makers[output], kind) if kind else self._step[output]
        if (output, value) in self.ways.late and self.machine.vector.instances:
            return min(step, 1 + self.machine.vector.latency)
        return step

    def _earliest(self, node: Node, start: int) -> tuple[int, int]:
        """When an operation's unit may begin, at ``start`` or later: with any of its work, and with what counts of it."""
        if not isinstance(node, Compute):
            return start, start
        early = max(start, self._loaded(node)) if node.output in self.planes else start
        if node.reducer and (not self.pace.may_be_on_planes(node) or self._at_once(node)):
            return early, max(early, self.of_one(node))
        return early, early

    def _at_once(self, node: Compute) -> bool:
        """Whether what planes have to do counts from the moment that all terms of some sum are there."""
        return self.ways.demands.share(node.output) == 1 and self.pace.at_once(node)

    def of_one(self, node: Node) -> int:
        """When all that is reduced to some element of an operation's output is complete."""
        readings = self.ways.readings[node.output]
        return max((self._for_one(node, r) for r in readings if r.before), default=0)

    def _for_one(self, node: Node, reading: Reading) -> int:
        """When what one element of an operation's output reads of a value is complete."""
        found = self._read_ready(reading, (1,) * reading.parallel)
        if not isinstance(node, Compute) or not node.reducer:
            return found
        return max(found, self._came(reading, ((),) * reading.parallel))

    def _loaded(self, node: Compute) -> int:
        """When a plane can have weights from either factor, and something to multiply with them."""
        load = 1 + self.machine.weights.latency
        known = {value for value, always in self.ways.sure[node.output] if always}
        one, other = (self.first[o.value] if o.value in known else 0 for o in node.operands[:2])
        return min(max(one + load, other), max(one, other + load))

    def _read_ready(self, reading: Reading, outputs: Box, at: pinned.Pins = ()) -> int:
        """When what so many outputs, whose indices are known so far, surely read of a value is complete."""
        if reading.value in self.ways.resident:
            return 0
        box = self.ways.taken(reading, outputs)
        return self._pinned_ready(reading.value, box, pinned.taken(reading, at)) if all(box) else 0

    def _pinned_ready(self, value: str, box: Box, at: pinned.Pins) -> int:
        """No box of the value that lies at the indices that are known is complete before this cycle."""
        node, key = self.ways.makers.get(value), (value, box, at)
        if node is None or self._depth == DEEP or not any(index is not None for index in at):
            return self.ready(value, box)
        if key not in self._pinned:
            self._depth += 1
            if isinstance(node, Reshape | Join):
                ways = [self._pinned_ready(*part) for part in pinned.behind(node, self.graph, box, at)]
            else:
                ways = [self._read_ready(r, box, at) + self._way(value, r.value) for r in self.ways.readings[value]]
            self._depth -= 1
            self._pinned[key] = max([self.ready(value, box), *ways])
        return self._pinned[key]

    def _came(self, reading: Reading, outputs: Places) -> int:
        """When what outputs at such places read of a value is complete, by what has to come over the link for it."""
        taken = places.taken(reading, outputs)
        return 0 if taken is None else self._apart_ready(reading.value, taken)

    def _apart_ready(self, value: str, taken: Places) -> int:
        """No elements at such places, wherever the first of them is, are complete before this cycle."""
        if value in self.ways.resident:
            return 0
        if places.whole(taken, self.graph.types[value].shape):
            return self.ready(value, self.graph.types[value].shape)
        key = (value, taken)
        if key not in self._apart:
            if self._depth == DEEP:
                return self.first[value]
            self._depth += 1
            self._apart[key] = self._complete_apart(value, taken)
            self._depth -= 1
        return self._apart[key]

    def _complete_apart(self, value: str, taken: Places) -> int:
        link, kind = self.machine.link_in, self.graph.types[value]
        if value in self.graph.inputs:
            pieces = places.beats(kind.shape, taken, ceil_div(link.bytes_per_cycle, kind.dtype.size))
            return ceil_div(pieces, link.instances) + link.latency
        node = self.ways.makers[value]
        if isinstance(node, Reshape):
            return self._apart_ready(node.input, places.renamed(node, self.graph, taken))
        return max((self._came(r, taken) + self._way(value, r.value) for r in self.ways.readings[value]), default=0)

    def ready(self, value: str, box: Box) -> int:
        """No ``box`` (elements along each dimension) of the value is complete before this cycle."""
        box = self._told_apart(value, box)
        key = (value, box)
        if key not in self._ready:
            if self._depth == DEEP:
                return self.first[value]
            self._depth += 1
            self._boxes[value] += 1
            self._ready[key] = max(self.first[value], self._complete(value, box))
            self._depth -= 1
            if box == self.graph.types[value].shape and not self._is_whole_of_one(value):
                self._ready[key] = max(self._ready[key], self._whole_ready(value))
        return self._ready[key]

    def _told_apart(self, value: str, box: Box) -> Box:
        """The box, or of a value with ``MANY`` boxes one with fewer elements, which are complete no later."""
        if self._boxes[value] < MANY or box == self.graph.types[value].shape or (value, box) in self._ready:
            return box
        return tuple(1 << (n.bit_length() - 1) if n else 0 for n in box)

    def _is_whole_of_one(self, value: str) -> bool:
        """Whether a value is another by a new name, so that all that goes into it goes into that one."""
        node = self.ways.makers.get(value)
        whole = self.ways.whole[value] if node is not None else []
        return node is not None and self.pace.is_name(node) and len(whole) == 1 and whole[0][1]

    def _whole_ready(self, value: str) -> int:
        """When all of a value is complete, by all that surely goes into it."""
        left, together = self._into(value)
        spans = {n: (self.start[n], way + self._latency[n]) for n, way in left.items() if n in self.start}
        bodies = 0 if self._bodies is None else self._bodies.least(spans)
        return max(bodies, *(self.ready(v, self.graph.types[v].shape) + left[v] for v in together), 0)

    def _into(self, value: str) -> tuple[dict[str, int], list[str]]:
        """Values of which all is needed for the whole of a value: cycles from their last element to its. And those that
        several readers need together."""
        left = {value: 0}
        several = []
        for name, readers, together in self.ways.flow(value):
            ways = [left[r] + self._way(r, name) for r in readers]
            left[name] = min(ways) if together else max(ways)
            if together:
                several.append(name)
        return left, several

    def _complete(self, value: str, box: Box) -> int:
        graph, machine = self.graph, self.machine
        if value in self.ways.resident:
            return 0
        if value in graph.inputs:
            return transfer(prod(box) * graph.types[value].dtype.size, machine.link_in) + machine.link_in.latency
        node = self.ways.makers[value]
        if isinstance(node, Scatter | Sort):
            return self.first[value]
        if isinstance(node, Reshape | Join):
            return max((self.ready(name, taken) for name, taken in behind(node, graph, box)), default=0)
        inputs = [(r.value, self._read_ready(r, box)) for r in self.ways.readings[value]]
        if self.pace.is_name(node):
            return self._passed(node, inputs)
        start = self.start[value]
        if isinstance(node, Compute) and box != node.loops[: node.parallel] and self.pace.may_be_on_planes(node):
            start = self.early[value]
        if not self.pace.contested(node):
            return self._made(node, box, inputs, start, self.pace.kind(node))
        on_planes = self._made(node, box, inputs, start, ON_PLANES)
        return min(on_planes, self._made(node, box, inputs, max(start, self.of_one(node)), ELSEWHERE))

    def _made(self, node: Node, box: Box, inputs: list[tuple[str, int]], start: int, kind: int) -> int:
        """When a box is complete that some kind of unit makes, of ``inputs`` with the times when they are complete."""
        known = self._passed(node, inputs, kind)
        return max(known, start + self.pace.body(node, box, known - start, kind))

    def _passed(self, node: Node, inputs: list[tuple[str, int]], kind: int = ANYWHERE) -> int:
        """When something may be made of all inputs."""
        return max((ready + self._way(node.output, value, kind) for value, ready in inputs), default=0)

    # -- tails ----------------------------------------------------------------------------------------------------------

    def _tails(self) -> dict[str, int]:
        """By value: from the moment its last element can be read until the end of the program."""
        after: dict[str, list[tuple[int, bool]]] = defaultdict(list)
        for name in self.graph.outputs:
            after[name].append((1 + self.machine.link_out.latency, True))
        tail: dict[str, int] = {}
        for node in reversed(self.graph.nodes):
            tail[node.output] = _combine(after[node.output])
            share = self.ways.demands.share(node.output)
            if not share:
                continue  # nothing follows what nobody asks for
            for value, whole in self.ways.whole[node.output]:
                after[value].append((tail[node.output] + self._way(node.output, value), whole and share == 1))
            self._barrier(node, tail, after)
        for name in self.graph.inputs:
            tail[name] = _combine(after[name])
        return tail

    def _barrier(self, node: Node, tail: dict[str, int], after: dict[str, list[tuple[int, bool]]]) -> None:
        """Behind the last element of what each of the node's elements needs all of comes the work of all that needs those."""
        if self._bodies is None:
            return
        wholes = self._wholes(node.output)
        for before, always in self.ways.sure[node.output]:
            if always and before in self.ways.makers:  # what is behind that is more
                more = self._wholes(before)
                wholes = {value: way for value, way in wholes.items() if value not in more}
        if not wholes:
            return
        if node.output not in self._rest:
            self._rest[node.output] = self._behind(node, tail)
        rest = self._rest[node.output]
        for value, way in wholes.items():
            after[value].append((way + rest, True))

    def _wholes(self, name: str) -> dict[str, int]:
        """Values all of which goes into every element of another, and the cycles from their last element to it."""
        if name not in self._all_of:
            readers, values = self.ways.trail(name)
            ways: list[int] = []
            for reader, behind in readers:
                ways.append(self._step[reader] + (ways[behind] if behind >= 0 else 0))
            found = self._all_of[name] = {}
            for value, at in values:
                found[value] = max(found.get(value, 0), ways[at])
        return self._all_of[name]

    def _behind(self, node: Node, tail: dict[str, int]) -> int:
        """Cycles from the first element of a node's output to the end, by what depends on it with every element."""
        assert self._bodies is not None
        first = {node.output: 0}
        spans: dict[str, tuple[int, int]] = {}
        at = self.ways.place[node.output] + 1
        for name in self.ways.order[at : at + self.ways.far]:
            start = self._after(self.ways.makers[name], first)
            pieces = max((first[value] for value in self.ways.pieces[name] if value in first), default=None)
            if pieces is not None:
                first[name] = pieces + self._step[name]
            if start is None:
                continue
            spans[name] = start, tail.get(name, 0) + self._latency[name]
            first[name] = max(first.get(name, 0), start + self._step[name])
        leaves = [(first[name], name) for name in dict.fromkeys(self.graph.outputs) if name in first]
        ends = [at + self._leave(name for begin, name in leaves if begin >= at) for at, _ in leaves]
        return max(self._bodies.least(spans), *ends, tail[node.output], 0)

    def _leave(self, outputs: Iterable[str]) -> int:
        """Cycles in which outputs leave, from the moment at which the first element of one of them can be read."""
        link, types = self.machine.link_out, self.graph.types
        one = link.instances > 1  # then the last parts of two may go together
        return link.latency + max(1, sum(transfer(types[name].bytes, link) - one for name in outputs))

    def _after(self, node: Node, first: dict[str, int]) -> int | None:
        """When a node can begin, at the times at which others have their first element; None where it may before."""
        if isinstance(node, Scatter | Sort):
            return None
        reads = self.ways.sure[node.output]
        if self.pace.is_name(node):
            sure = [first[v] for v, always in reads if always and v in first]
            return min(sure) if reads and len(sure) == len(reads) else None
        return max((first[v] for v, always in reads if always and v in first), default=None)


def _without(cycles: dict[str, int], left_out: set[str]) -> dict[str, int]:
    return {value: when for value, when in cycles.items() if value not in left_out}


def _combine(paths: list[tuple[int, bool]]) -> int:
    """The least that follows the last element: the longest way that takes every element, else the shortest way."""
    whole = [length for length, all_of_it in paths if all_of_it]
    return max(whole) if whole else min((length for length, _ in paths), default=0)
