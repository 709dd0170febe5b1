"""Bound <= best of an exhaustive search <= ours, on random graphs. `python -m benchmarks.exhaustive [COUNT]`

The search runs over all orders and all assignments to planes of the very tiles that our schedule has, with unlimited
memory: data line by line, units, latencies, and weights that stay with their plane. It branches over the next tile by start
cycle, over all active schedules (they contain an optimal one; Giffler and Thompson 1960, for work that may begin before
what it needs has ended), pruned by longest paths; nothing is cut off by a limit. Ends with status 1 when an inequality fails.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings

from benchmarks.arguments import counts
from compiler import targets
from compiler.bounds import bounds
from compiler.driver import quiet
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Graph, Operand
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.passes import optimise
from compiler.scheduling.build import Plan, build
from compiler.scheduling.priorities import tails
from compiler.targets import Target
from tests.compiler.contractions import contractions, small
from tests.compiler.graphs import graphs

COUNT = 200
OPERATIONS = 8
TILES = 14  # of a graph of contractions, loads and transfers included
PLANES = ("weights", "matrix")
Unit = tuple[str, int]


@dataclass
class Search:
    """Branch and bound over the tiles of a plan; ``best`` starts as our own latency."""

    plan: Plan
    best: int
    nodes: int = 0
    tail: list[int] = field(default_factory=list)
    users: list[list[tuple[int, int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        data = self.plan.needs.data
        self.tail = tails(self.plan.tiles, data)
        self.users = [[] for _ in data]
        for number, before in enumerate(data):
            for b, lag in before.items():
                self.users[b].append((number, lag))

    def run(self) -> int:
        """The least latency of any order and assignment."""
        tiles, data = self.plan.tiles, self.plan.needs.data
        head = [0] * len(tiles)
        for number in range(len(tiles)):
            head[number] = max((head[b] + lag for b, lag in data[number].items()), default=0)
        floor = max((h + t for h, t in zip(head, self.tail, strict=True)), default=0)
        for units in self._assignments():
            if self.best == floor:
                break
            self._branch(units, {}, [len(d) for d in data], [0] * len(tiles), set(range(len(tiles))))
        return self.best

    def _assignments(self) -> Iterator[list[Unit]]:
        """Units of all tiles; tiles of one weight tile share a plane, and equal planes are not told apart."""
        tiles = self.plan.tiles
        group: dict[int, int] = {}
        for number, tile in enumerate(tiles):
            if tile.unit[0] == "weights":
                group[number] = len(set(group.values()))
                for user, _ in self.users[number]:
                    group[user] = group[number]
        count = len(set(group.values()))
        planes = self.plan.target.matrix.instances
        for choice in _partitions(count, planes):
            yield [
                (tile.unit[0], choice[group[n]]) if tile.unit[0] in PLANES else tile.unit
                for n, tile in enumerate(tiles)
            ]

    def _branch(
        self,
        units: list[Unit],
        free: dict[Unit, int],
        waiting: list[int],
        earliest: list[int],
        left: set[int],
        last: tuple[int, int] = (-1, -1),
    ) -> None:
        """Every next tile in the order of start cycles, unless another one could end before it begins."""
        self.nodes += 1
        tiles = self.plan.tiles
        if not left:
            self.best = min(self.best, max(earliest, default=0))
            return
        ready = [n for n in sorted(left) if not waiting[n]]
        start = {n: max(earliest[n], free.get(units[n], 0)) for n in ready}
        if any(start[n] + self.tail[n] >= self.best for n in ready):
            return
        limit = min(start[n] + tiles[n].beats for n in ready)
        for n in sorted(
            (n for n in ready if last < (start[n], n) and start[n] < limit),
            key=lambda n: (start[n], -self.tail[n], n),
        ):
            self._place(n, start[n], units, free, waiting, earliest, left)

    def _place(
        self,
        n: int,
        at: int,
        units: list[Unit],
        free: dict[Unit, int],
        waiting: list[int],
        earliest: list[int],
        left: set[int],
    ) -> None:
        tile = self.plan.tiles[n]
        waits, starts = list(waiting), list(earliest)
        starts[n] = at + tile.end  # from now on its end: the largest of all is the latency
        for user, lag in self.users[n]:
            waits[user] -= 1
            starts[user] = max(starts[user], at + lag)
        self._branch(units, {**free, units[n]: at + tile.beats}, waits, starts, left - {n}, (at, n))


def _partitions(count: int, planes: int) -> Iterator[list[int]]:
    """Every way to give ``count`` groups to equal planes."""

    def grow(chosen: list[int]) -> Iterator[list[int]]:
        if len(chosen) == count:
            yield chosen
            return
        for plane in range(min(max(chosen, default=-1) + 2, planes)):
            yield from grow([*chosen, plane])

    yield from grow([])


def contended(rng: np.random.Generator) -> Graph:
    """A graph of up to eight operations whose tiles take long enough to stand in each other's way."""
    b = Builder("contended")
    f32 = DType.F32
    shape = (int(rng.integers(1, 32)), int(rng.integers(1, 32)))
    values = [b.input(f"in{n}", TensorType(f32, shape)) for n in range(int(rng.integers(1, 4)))]
    here = Access.identity(2)
    x, y = arg(0, f32), arg(1, f32)
    for number in range(int(rng.integers(2, OPERATIONS + 1))):
        b.source = (f"op{number}",)
        one, other = (values[int(rng.integers(len(values)))] for _ in range(2))
        (m, k), n = b.shape(one), int(rng.integers(1, 32))
        kind = int(rng.integers(4))
        if kind == 0 and b.shape(other) == (m, k):
            made = b.compute((m, k), [Operand(one, here), Operand(other, here)], x * y + 1.0)
        elif kind == 1:
            made = b.compute((m, k), [Operand(one, here)], x.op("erf") * x)
        elif kind == 2:  # one kind of four
            rows = Access((0, 0), ((1, 0), (0, 1)))
            made = b.compute((m, k), [Operand(one, rows)], x, parallel=1, reducer="max")
            made = b.reshape(made, (m, 1))
        else:
            weights = b.constant(rng.standard_normal((k, n)).astype(np.float32))
            left, right = Access((0, 0), ((1, 0, 0), (0, 0, 1))), Access((0, 0), ((0, 0, 1), (0, 1, 0)))
            made = b.compute((m, n, k), [Operand(one, left), Operand(weights, right)], x * y, parallel=2, reducer="sum")
        values.append(made)
    return b.finish({f"out{n}": v for n, v in enumerate(dict.fromkeys(values[-2:]))}, {}, {})


def compare(graph: Graph, target: Target | str = "lpu") -> tuple[int, int, int]:
    """Proven bound, best found by the search, ours, in cycles of latency."""
    target = targets.load(target) if isinstance(target, str) else target
    fused = optimise(graph)
    plan = build(fused, target, quiet)
    return bounds(fused, target).latency, Search(plan, plan.latency).run(), plan.latency


def packed(rng: np.random.Generator) -> tuple[Graph, Target]:
    """One or two contractions (grouped, batched, strided, padded, with residuals, of bytes or floats) on planes of some ten
    rows and columns, so that several share a pass or one needs several; few enough tiles for the search."""
    while True:
        dtype = (DType.F32, DType.I8)[int(rng.integers(2))]
        graph = contractions(rng, int(rng.integers(1, 3)), dtype, most=4)
        depth, width, planes, alus = (int(rng.integers(low, high)) for low, high in ((4, 20), (4, 20), (1, 3), (1, 4)))
        target = small(depth, width, lanes=int(rng.integers(1, 17)), alus=alus, planes=planes)
        if len(build(optimise(graph), target, quiet).tiles) <= TILES:
            return graph, target


def main(count: int) -> int:
    """Run the comparison on ``count`` graphs, the same ones every time."""
    seen: Counter[str] = Counter()
    worst = [1.0, 1.0]

    def note(graph: Graph, target: Target | str = "lpu") -> None:
        bound, best, ours = compare(graph, target)
        seen["graphs"] += 1
        seen["bound above the best"] += bound > best
        seen["best above ours"] += best > ours
        seen["ours is the best"] += ours == best
        seen["the best is the bound"] += best == bound
        worst[0], worst[1] = max(worst[0], best / bound), max(worst[1], ours / best)

    @settings(
        max_examples=count - 2 * (count // 3),
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(graphs(max_nodes=OPERATIONS))
    def every(graph: Graph) -> None:
        note(graph)

    every()
    rng = np.random.default_rng(0)
    for _ in range(count // 3):
        note(contended(rng))
        note(*packed(rng))
    for name, number in seen.items():
        print(f"{name}: {number}")
    print(f"largest best / bound {worst[0]:.3f}, largest ours / best {worst[1]:.3f}")
    return 1 if seen["bound above the best"] or seen["best above ours"] else 0


if __name__ == "__main__":
    sys.exit(main(*counts("exhaustive", __doc__, sys.argv[1:], count=COUNT)))
