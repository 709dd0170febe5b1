"""Figures of a processor's file that keep common layers off its fast units, found by compiling such layers for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType

from compiler.errors import DoesNotFit, ModelError
from compiler.ir import Compute, Graph
from compiler.isa import TABLE, Op, time
from compiler.precision import PRECISIONS, Calibration, offered
from compiler.probing.fit import LARGEST, figure, varied
from compiler.probing.layers import NAMES, SIZES, feeds, layer
from compiler.program import Program
from compiler.targets import Target

WORTH = 1.5  # times as fast with another figure: less is not warned of
LIMITS = ("matrix.slots", "matrix.accumulator_rows", "vector.tile", "move.tile", "link_in.tile", "link_out.tile")
MORE = 8  # times that these are tried


@dataclass(frozen=True)
class Trial:
    """A layer that was compiled for a processor."""

    layer: str
    precision: str
    graph: Graph
    ranges: Calibration | None
    program: Program

    def __str__(self) -> str:
        return f"{self.layer} in {self.precision}"

    def cycles(self, other: Target) -> int:
        """The cycles on another processor; as many as ever where it cannot be compiled."""
        import compiler

        try:
            return compiler.compile(self.graph, other, self.precision, self.ranges).resources.cycles
        except ModelError:
            return self.program.resources.cycles


def advice(target: Target) -> list[str]:
    """Sentences, each about a figure with which a common layer would be ``WORTH`` times as fast or could be compiled at all."""
    found: dict[str, tuple[float, str]] = {}
    refused: dict[str, list[str]] = {}  # layers by why they are
    for trial in _trials(target):
        if isinstance(trial, str):
            name, _, why = trial.partition(": ")
            refused.setdefault(why, []).append(name)
            continue
        for look in (_missing, _starved, _limited):
            worth = [one for one in look(target, trial) if one[1] >= WORTH]
            for key, gain, text in worth:
                found[key] = max(found.get(key, (0, "")), (gain, text))
            if worth:
                break  # with that changed, the others would not be what they are
    cannot = [f"{' and '.join(dict.fromkeys(names))} cannot be compiled: {why}" for why, names in refused.items()]
    return cannot + [text for _, text in sorted(found.values(), key=lambda one: -one[0])]


def _trials(target: Target) -> Iterator[Trial | str]:
    """Each layer in each precision at the largest size that fits, or its name and why it cannot be compiled."""
    for name in NAMES:
        for precision in PRECISIONS:
            if precision in offered(target.matrix.tiles):
                yield _trial(target, name, precision)


def _trial(target: Target, name: str, precision: str) -> Trial | str:
    import compiler

    for size in SIZES:
        graph = layer(name, size)
        ranges = None if precision == "float32" else compiler.calibrate(graph, feeds(graph), precision)
        try:
            return Trial(name, precision, graph, ranges, compiler.compile(graph, target, precision, ranges))
        except DoesNotFit:
            continue
        except ModelError as error:
            return f"{name}: {error.message}"
    return f"{name}: {SIZES[-1]} inner points do not fit into memory.bytes = {target.memory_bytes}"


def _missing(target: Target, trial: Trial) -> Iterator[tuple[str, float, str]]:
    """Types that the layer multiplies and the planes do not."""
    from compiler.passes import optimise
    from compiler.precision import prepare

    tiles = target.matrix.tiles
    graph, _ = prepare(optimise(trial.graph), trial.precision, trial.ranges)
    products = [node for node in graph.nodes if isinstance(node, Compute) and node.is_contraction]
    factors = {graph.types[operand.value].dtype.value for node in products for operand in node.operands[:2]}
    for dtype in sorted(factors - set(tiles)) if tiles else ():
        tile = max(tiles.values())
        matrix = replace(target.matrix, tiles=MappingProxyType({**tiles, dtype: tile}))
        ours, theirs = trial.program.resources.cycles, trial.cycles(replace(target, matrix=matrix))
        what = f"matrix.tiles.{dtype} is missing, so the vector unit multiplies {dtype}"
        text = f"{what}; {trial}: {ours:,} cycles, {theirs:,} with {dtype} = {list(tile)}"
        yield f"matrix.tiles.{dtype} {trial.precision}", ours / theirs, text


def _starved(target: Target, trial: Trial) -> Iterator[tuple[str, float, str]]:
    """Ports too few for the unit behind them, where that is the busiest on the chip."""
    binary = trial.program.binary
    rows = [(TABLE[Op(i.opcode)].unit, i) for i in binary.rows]

    def busy(unit: str, machine: Target) -> int:
        return sum(time(machine, binary, i).beats for name, i in rows if name == unit)

    unit = max(
        ("weights", "matrix", "vector", "move"),
        key=lambda name: busy(name, target) / max(1, target.unit(name).instances),
    )
    ours = busy(unit, target)
    if 2 * ours < trial.program.resources.cycles * target.unit(unit).instances:
        return  # something else takes the time
    paths = [f"{unit}.ports.{port}" for port in target.unit(unit).ports]
    free = target
    for path in paths:
        free = varied(free, path, LARGEST)
    least = busy(unit, free)
    changes = ", ".join(
        f"{path} = {need}" for path in paths if (need := _needed(free, path, unit, busy, least)) > figure(target, path)
    )
    yield (
        f"{unit}.ports",
        ours / max(1, least),
        (
            f"{unit}.ports are few, so the unit waits for memory; {trial}: it is busy for {ours:,} cycles, for {least:,} "
            f"with {changes}"
        ),
    )


def _needed(free: Target, path: str, unit: str, busy: Callable[[str, Target], int], least: int) -> int:
    """The fewest lines per cycle, a power of two, with which one port is (to a tenth) no limit."""
    need = 1
    while need < LARGEST and busy(unit, varied(free, path, need)) * 10 > least * 11:
        need *= 2
    return need


def _limited(target: Target, trial: Trial) -> Iterator[tuple[str, float, str]]:
    """Limits of single instructions that cut a layer into too many."""
    paths = [path for path in LIMITS if target.unit(path.partition(".")[0]).instances]
    ours = trial.program.resources.cycles
    every = target
    for path in paths:
        every = varied(every, path, MORE * figure(target, path))
    if ours < WORTH * trial.cycles(every):
        return
    given = ""
    while paths:  # the one that helps most; others only if they help beside it
        cycles = {path: trial.cycles(varied(target, path, MORE * figure(target, path))) for path in paths}
        path = min(paths, key=lambda path: cycles[path])
        less, more = figure(target, path), MORE * figure(target, path)
        text = f"{path} = {less} is low; {trial}: {ours:,} cycles{given}, {cycles[path]:,} with {more}"
        yield path, ours / cycles[path], text
        if ours < WORTH * cycles[path]:
            return
        target, ours = varied(target, path, more), cycles[path]
        given += f" with {path} = {more}"
        paths.remove(path)
