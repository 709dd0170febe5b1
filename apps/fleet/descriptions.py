"""Describes a processor version for pages, with the source of every figure. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from typing import Any

from apps import figures
from apps.figures import shape_format
from compiler.isa.machine import UNIT_CLASSES
from compiler.targets import Target

PRECISIONS = (("int8", "i8"), ("float16", "f16"), ("bfloat16", "bf16"), ("float32", "f32"))
UNITS: dict[str, tuple[str, str]] = {
    "link_in": ("Link in", "Receives the inputs from the host."),
    "external": ("External memory", "Fetches weights from off-chip memory before they are used."),
    "weights": ("Weight loading", "Loads weights into one slot of a plane while another slot is in use."),
    "matrix": ("Matrix planes", "Multiplies rows by the weights in a slot and sums the products."),
    "vector": ("Vector unit", "Computes element by element: activations, sums, reductions."),
    "move": ("Data movement", "Copies, transposes, gathers and scatters."),
    "control": ("Control", "Chooses a branch according to a value."),
    "link_out": ("Link out", "Sends the outputs to the host."),
}
OTHERS = {"clock": "Clock", "memory": "On-chip memory", "passes": "Scalar operators", "energy": "Energy"}
WORDS = {
    "hz": "cycles per second",
    "bytes": "bytes",
    "line_bytes": "bytes of a line",
    "read_ports": "lines read per cycle",
    "write_ports": "lines written per cycle",
    "instances": "how many",
    "latency": "cycles to the first result",
    "tile": "maximum elements per instruction",
    "bytes_per_cycle": "bytes per cycle",
    "slots": "sets of weights held",
    "accumulator_rows": "rows of sums held",
    "alus": "operations on an element in one pass",
    "lanes": "elements per cycle",
    "ahead": "bytes fetched ahead at most",
    "weights": "which weights lie there",
    "instructions": "where instructions lie",
    "out": "lines written per cycle",
    "index": "lines of indices read per cycle",
    "alu": "one operation on an element",
    "mac_8": "multiply and add, 8 bits",
    "mac_16": "multiply and add, 16 bits",
    "mac_32": "multiply and add, 32 bits",
    "read_byte": "one byte read",
    "write_byte": "one byte written",
    "link_byte": "one byte over the link",
    "external_byte": "one byte from external memory",
    "cycle": "one cycle, whatever runs",
    "i8": "int8: rows × columns",
    "u8": "unsigned int8: rows × columns",
    "f16": "float16: rows × columns",
    "f32": "float32: rows × columns",
    "bf16": "bfloat16: rows × columns",
    "f8e4m3fn": "float8 E4M3FN: rows × columns",
    "f8e4m3fnuz": "float8 E4M3FNUZ: rows × columns",
    "f8e5m2": "float8 E5M2: rows × columns",
    "f8e5m2fnuz": "float8 E5M2FNUZ: rows × columns",
    "i4": "int4: rows × columns",
    "u4": "unsigned int4: rows × columns",
}
KINDS = {
    "published": "published by the maker",
    "derived": "derived from what was published",
    "extension": "an extension of the published processor",
    "chosen": "chosen by us",
}


@dataclass(frozen=True)
class Figure:
    """A figure in a processor's file: its key, label, value and source."""

    path: str
    label: str
    value: str
    kind: str
    source: str


@dataclass(frozen=True)
class Part:
    """A unit of the processor, or another section of its file. `fact` is the text in the unit's box in the diagram."""

    key: str
    title: str
    text: str
    count: int
    fact: str
    figures: list[Figure]


def parts(target: Target) -> list[Part]:
    """Return the units of the processor, in the order in which data pass through the units."""
    by_section = _by_section(target)
    return [
        Part(key, *UNITS[key], target.unit(key).instances, _fact(target, key), by_section.get(key, []))
        for key in UNIT_CLASSES
        if target.unit(key).instances
    ]


def others(target: Target) -> list[Part]:
    """Return the sections that are not units: clock, memory, scalar operators and energy. Empty sections are omitted."""
    by_section = _by_section(target)
    return [Part(key, title, "", 1, "", by_section[key]) for key, title in OTHERS.items() if by_section.get(key)]


def _by_section(target: Target) -> dict[str, list[Figure]]:
    found: dict[str, list[Figure]] = {}
    for path, (value, source) in target.figures.items():
        section, _, rest = path.partition(".")
        kind, _, reason = source.partition(":")
        word = kind.split(" ")[0]
        text = shape_format(value) if isinstance(value, list) else _value(value)
        reason = reason.strip() or kind.partition(" ")[2]
        found.setdefault(section, []).append(Figure(path, _label(section, rest), text, word, reason))
    return found


def _value(value: Any) -> str:
    return figures.count_format(value) if isinstance(value, int) else str(value)


def _label(section: str, rest: str) -> str:
    name = rest.rsplit(".", 1)[-1]
    if section == "passes":
        return name
    if rest.startswith("ports.") and len(name) == 1:
        return f"lines read per cycle, operand {name}"
    return WORDS.get(name, name.replace("_", " "))


def _fact(target: Target, key: str) -> str:
    unit = target.unit(key)
    if key == "matrix":
        kind = next(kind for _, kind in (*PRECISIONS, ("", "u8")) if kind in target.matrix.tiles)
        rows, columns = target.matrix.tiles[kind]
        return f"{rows} × {columns} each"
    if key == "vector":
        return f"{target.vector.lanes} lanes, {target.vector.alus} operations each"
    rate = getattr(unit, "bytes_per_cycle", 0)
    if rate:
        return per_second(target, rate * unit.instances, "B")
    return "" if key == "control" else f"{figures.count_format(unit.tile)} elements at most"


def per_second(target: Target, per_cycle: int, unit: str) -> str:
    """Convert a rate per cycle to text that states the rate per second."""
    return f"{figures.short_format(per_cycle * target.clock_hz, unit)}/s"


def peak(target: Target, kind: str) -> int | None:
    """Return the peak number of contraction operations per second for an element type; None if the processor does not
    support the type.
    """
    tile = target.matrix.tiles.get(kind)
    return 2 * tile[0] * tile[1] * target.matrix.instances * target.clock_hz if tile else None


def passes(target: Target) -> list[tuple[int, list[str]]]:
    """Return the scalar operators that need more than one pass, as (passes, operators), with the fewest passes first."""
    ordered = sorted((count, name) for name, count in target.passes.items())
    return [(count, [name for _, name in group]) for count, group in groupby(ordered, key=lambda pair: pair[0])]


def energy(target: Target) -> list[tuple[str, str]]:
    """Return rows of (action, energy). The last row gives the power that does not depend on the work."""
    actions = [(name, value) for name, value in target.energy.items() if value and name != "cycle"]
    rows = [(WORDS.get(name, name), figures.energy_format(value)) for name, value in actions]
    return [*rows, ("power that does not depend on the work", idle_power(target))]


def idle_power(target: Target) -> str:
    """Return the idle power of a processor, in watts."""
    watts = Fraction(target.energy.get("cycle", 0) * target.clock_hz, 10**15)
    return f"{figures.fixed(watts, 1 if watts >= 1 else 3)}{figures.NARROW_SPACE}W"


def sources(target: Target) -> list[tuple[str, str, int]]:
    """Return the kinds of sources as (kind, meaning, number of figures), with the most reliable kind first."""
    counted = Counter(source.split(":")[0].split(" ")[0] for _, source in target.figures.values())
    return [(kind, meaning, counted[kind]) for kind, meaning in KINDS.items() if counted[kind]]


def comparison(targets: list[Target]) -> list[tuple[str, list[str]]]:
    """Return the rows of the comparison table as (property, one text for each processor)."""
    return [(title, [write(target) for target in targets]) for title, write in _rows()]


def _rows() -> Iterator[tuple[str, Any]]:
    yield "Clock", lambda target: figures.short_format(target.clock_hz, "Hz")
    for name, kind in PRECISIONS:
        yield f"Peak, {name}", lambda target, kind=kind: _peak_text(target, kind)
    yield "On-chip memory", lambda target: figures.bytes_format(target.memory_bytes)
    yield "External memory", _external_text
    yield "Matrix planes", _planes_text
    yield "Vector unit", lambda target: f"{target.vector.lanes} × {target.vector.alus} operations per cycle"
    yield (
        "Link, each way",
        lambda target: per_second(target, target.link_in.bytes_per_cycle * target.link_in.instances, "B"),
    )
    yield "Branches on data", lambda target: "yes" if target.control.instances else "no"
    yield "Energy of a multiply-add, int8", lambda target: figures.energy_format(target.energy.get("mac_8", 0))
    yield "Power without work", idle_power


def _peak_text(target: Target, kind: str) -> str:
    rate = peak(target, kind)
    return "vector unit only" if rate is None else f"{figures.short_format(rate, 'op')}/s"


def _external_text(target: Target) -> str:
    port = target.external
    if not port.instances:
        return "none"
    return f"{figures.bytes_format(port.capacity)} at {per_second(target, port.bytes_per_cycle * port.instances, 'B')}"


def _planes_text(target: Target) -> str:
    return (
        f"{target.matrix.instances} of {_fact(target, 'matrix').removesuffix(' each')}"
        if target.matrix.instances
        else "none"
    )
