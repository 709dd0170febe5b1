"""Reads the text of a target file strictly: all its missing, unknown and impossible figures are told with what to change."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from compiler.errors import ModelError
from compiler.isa import (
    NO_EXTERNAL,
    SIZE,
    SUMS,
    UNIT_CLASSES,
    ExternalUnit,
    LinkUnit,
    Machine,
    MatrixUnit,
    Unit,
    VectorUnit,
    WeightsUnit,
)
from compiler.numerics.scalar import SCALAR

_TABLE, _KEY = re.compile(r"\s*\[+\s*([\w.-]+)\s*\]"), re.compile(r"\s*([\w.-]+)\s*=")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
TABLES = ("clock", "memory", "passes", "energy", *UNIT_CLASSES)
KINDS = ("published", "chosen", "extension", "derived")
ENERGY = ("alu", "mac_8", "mac_16", "mac_32", "read_byte", "write_byte", "link_byte", "external_byte", "cycle")
# The largest figures by name: what an instruction's fields can tell apart (units and slots in 8 bits), what leaves room for
# programs within their 32 bits of cycles, and rates far beyond any processor.
MOST = {
    "instances": 256,
    "slots": 256,
    "latency": 1 << 20,
    "passes": 1 << 16,
    "alus": 256,
    "lanes": 1 << 16,
    "matrix.tiles": 1 << 12,
    "line_bytes": 1 << 16,
    "": (1 << 48) - 1,
}
READ_PORTS = {
    "weights": ("a",),
    "matrix": ("a", "b", "c", "d"),
    "vector": ("a", "b", "c", "d"),
    "move": ("a", "index"),
    "link_out": ("a",),
    "link_in": (),
    "external": (),
    "control": ("a",),
}
BYTES = ("link_in", "link_out", "external")  # whose tiles are bytes: an element has to fit
WRITE_PORTS = {"matrix", "vector", "move", "link_in", "external"}


@dataclass(frozen=True, kw_only=True)
class Target(Machine):
    """A processor version. ``digest``: SHA-256 of the file's content, whatever its layout and comments.

    ``figures``: path of every figure ("matrix.latency") -> (value, source), for the report and the docs.
    """

    name: str
    version: int
    title: str
    price_class: str
    digest: str
    figures: Mapping[str, tuple[Any, str]]

    def instances(self) -> list[tuple[str, int]]:
        """All units in issue order, as (class, instance)."""
        return [(name, n) for name in UNIT_CLASSES for n in range(self.unit(name).instances)]

    def classes(self) -> list[tuple[str, Unit]]:
        """The classes of units that the processor has, in issue order."""
        return [(name, self.unit(name)) for name in UNIT_CLASSES if self.unit(name).instances]


class _Reader:
    """Takes figures out of a parsed file one by one and knows in the end what was wrong and what was not asked for.

    A figure that is wrong is noted among the ``faults``, and the reading goes on with the least that it could be.
    """

    def __init__(self, name: str, data: dict[str, Any], lines: Mapping[str, int]) -> None:
        self.name = name
        self.data = data
        self.lines = lines
        self.figures: dict[str, tuple[Any, str]] = {}
        self.asked: set[str] = set()
        self.faults: list[tuple[int, str]] = []  # with their lines, 0 where there is none

    def fault(self, message: str, path: str = "") -> None:
        """Note what is wrong, with the line of a figure or of its table."""
        line = self.lines.get(path) or self.lines.get(path.rpartition(".")[0], 0)
        self.faults.append((line, f"{message} (line {line})" if line else message))

    def refuse(self) -> None:
        """``ModelError`` with all faults in the order of the file, if there are any."""
        problems = tuple(ModelError(said) for _, said in sorted(self.faults, key=lambda fault: fault[0]))
        if len(problems) == 1:
            raise ModelError(f"target {self.name}: {problems[0]}")
        if problems:
            raise ModelError(f"target {self.name}: {len(problems)} faults", problems=problems)

    def text(self, key: str) -> str:
        value = self.data.get(key)
        if isinstance(value, str) and value:
            return value
        self.fault(f"'{key}' must be a text; add {key} = \"...\" at the top of the file", key)
        return "?"

    def number(self, section: str, key: str, low: int = 1, default: int | None = None) -> int:
        value = self._figure(section, key, default)
        high = MOST.get(key, MOST[""]) if section != "passes" else MOST["passes"]
        if type(value) is not int or not low <= value <= high:
            self._wrong(f"{section}.{key}", f"a whole number of at least {low} and at most {high}", value)
            return low
        return value

    def _wrong(self, path: str, wanted: str, value: Any) -> None:
        if value is not None:  # else it is known to be missing
            self.fault(f"{path} must be {wanted}, not {repr(value)[:80]}", path)

    def pair(self, section: str, key: str) -> tuple[int, int]:
        value = self._figure(section, key, None)
        most = MOST[section]
        if (
            not isinstance(value, list)
            or len(value) != 2
            or any(type(v) is not int or not 0 < v <= most for v in value)
        ):
            self._wrong(f"{section}.{key}", f"two positive whole numbers [rows, columns] of at most {most}", value)
            return 1, 1
        return value[0], value[1]

    def choice(self, section: str, key: str, allowed: tuple[str, ...]) -> str:
        value = self._figure(section, key, None)
        if value not in allowed:
            self._wrong(f"{section}.{key}", " or ".join(map(repr, allowed)), value)
            return allowed[0]
        return str(value)

    def has(self, section: str) -> bool:
        """Whether the file describes such a unit at all."""
        return isinstance(self.data.get(section), dict)

    def keys(self, section: str) -> list[str]:
        table = self._table(section)
        return list(table) if isinstance(table, dict) else []

    def _table(self, section: str) -> Any:
        table: Any = self.data
        for part in section.split("."):
            table = table.get(part) if isinstance(table, dict) else None
        return table

    def _figure(self, section: str, key: str, default: int | None) -> Any:
        """What the file says for a figure; None for one that is not written as such, which is a fault."""
        table = self._table(section)
        entry = table.get(key) if isinstance(table, dict) else None
        path = f"{section}.{key}"
        self.asked.add(path)
        if entry is None and default is not None:
            return default
        if not isinstance(entry, dict) or set(entry) != {"value", "source"}:
            if not {section, section.partition(".")[0]} & self.asked:  # a table that is missing is told once
                self.fault(self._unwritten(section, key, table, entry), path)
            return None
        source = entry["source"]
        if not isinstance(source, str) or source.split(":")[0].split(" ")[0] not in KINDS:
            self.fault(f"the source of {path} must begin with one of {', '.join(KINDS)}", path)
        self.figures[path] = (entry["value"], source)
        return entry["value"]

    def _unwritten(self, section: str, key: str, table: Any, entry: Any) -> str:
        """Why a figure is none: it is not there, under another name, or not written as one."""
        form = f'write {key} = {{ value = ..., source = "..." }} in [{section}]'
        if entry is not None:
            said = ", ".join(map(repr, entry)) or "nothing" if isinstance(entry, dict) else f"just {entry!r}"
            return f"{section}.{key} must have a value and a source, not {said[:80]}; {form}"
        if not isinstance(table, dict):
            gone = section if self.has(section.partition(".")[0]) else section.partition(".")[0]
            self.asked.add(gone)
            said = (
                "is missing"
                if self._table(gone) is None
                else f"must be one table of figures, not {str(self._table(gone))[:40]!r}"
            )
            return f"[{gone}] {said}; {form}"
        close = get_close_matches(key, [name for name in table if f"{section}.{name}" not in self.asked], 1)
        called = f" (there is a {section}.{close[0]})" if close else ""
        self.asked |= {f"{section}.{name}" for name in close}  # that one is not unknown as well
        return f"{section}.{key} is missing{called}; {form}"

    def refuse_unknown(self) -> None:
        """Every figure in the file must have been asked for."""

        def walk(prefix: str, table: dict[str, Any]) -> None:
            for key, value in table.items():
                path = f"{prefix}{key}"
                if path in self.asked:
                    continue
                if not prefix and isinstance(value, dict) and key not in TABLES:
                    close = get_close_matches(key, [name for name in TABLES if name not in table], 1)
                    said = f"rename it to [{close[0]}] or remove it" if close else "remove it"
                    self.fault(f"there is no table [{key}]; {said}", key)
                    continue
                if not isinstance(value, dict):
                    self.fault(f"there is no setting '{path}'; remove it", path)
                elif "value" in value:
                    self.fault(f"there is no figure '{path}'; remove it or correct its name", path)
                else:
                    walk(f"{path}.", value)

        walk("", {k: v for k, v in self.data.items() if k not in ("name", "version", "title", "price_class")})


def _unit(r: _Reader, name: str, *, tile: bool) -> dict[str, Any]:
    ports = {key: r.number(f"{name}.ports", key) for key in READ_PORTS[name]}
    if name in WRITE_PORTS:
        ports["out"] = r.number(f"{name}.ports", "out")
    return {
        "instances": r.number(name, "instances"),
        "latency": r.number(name, "latency"),
        "ports": MappingProxyType(ports),
        "tile": r.number(name, "tile", max(SIZE.values()) if name in BYTES else 1) if tile else 0,
    }


def _absent(name: str) -> dict[str, Any]:
    """A unit that the processor does not have: nothing may be issued to it."""
    ports = (*READ_PORTS[name], *(("out",) if name in WRITE_PORTS else ()))
    return {"instances": 0, "latency": 0, "ports": MappingProxyType(dict.fromkeys(ports, 1)), "tile": 0}


def _planes(r: _Reader) -> tuple[WeightsUnit, MatrixUnit]:
    """Planes and their load ports; both or neither."""
    if not r.has("matrix") and not r.has("weights"):
        matrix = MatrixUnit(**_absent("matrix"), tiles=MappingProxyType({}), slots=0, accumulator_rows=0, alus=1)
        return WeightsUnit(**_absent("weights"), bytes_per_cycle=1), matrix
    types = r.keys("matrix.tiles")
    wrong = [name for name in types if name not in SUMS]
    if wrong or not types:
        said = f"matrix.tiles takes at least one of {', '.join(SUMS)}, not {', '.join(wrong) or 'none'}"
        r.fault(said, f"matrix.tiles.{wrong[0]}" if wrong else "matrix.tiles")
        r.asked |= {f"matrix.tiles.{name}" for name in wrong}
    weights = WeightsUnit(**_unit(r, "weights", tile=False), bytes_per_cycle=r.number("weights", "bytes_per_cycle"))
    return weights, MatrixUnit(
        **_unit(r, "matrix", tile=False),
        tiles=MappingProxyType({name: r.pair("matrix.tiles", name) for name in types if name not in wrong}),
        slots=r.number("matrix", "slots", 2),
        accumulator_rows=r.number("matrix", "accumulator_rows"),
        alus=r.number("matrix", "alus"),
    )


def _vector(r: _Reader) -> VectorUnit:
    if not r.has("vector"):
        return VectorUnit(**_absent("vector"), lanes=2, alus=1)
    return VectorUnit(
        **_unit(r, "vector", tile=True), lanes=r.number("vector", "lanes", 2), alus=r.number("vector", "alus")
    )


def _external(r: _Reader) -> ExternalUnit:
    if not r.has("external"):
        return NO_EXTERNAL
    return ExternalUnit(
        **_unit(r, "external", tile=True),
        capacity=r.number("external", "bytes"),
        bytes_per_cycle=r.number("external", "bytes_per_cycle"),
        ahead=r.number("external", "ahead"),
        all_weights=r.choice("external", "weights", ("all", "overflow")) == "all",
        instructions=r.choice("external", "instructions", ("streamed", "resident")) == "streamed",
    )


def _link(r: _Reader, name: str) -> LinkUnit:
    return LinkUnit(**_unit(r, name, tile=True), bytes_per_cycle=r.number(name, "bytes_per_cycle"))


def _energy(r: _Reader) -> Mapping[str, int]:
    unused = {} if r.has("external") else {"external_byte": 0}  # may be left out where there is no such memory
    return MappingProxyType({name: r.number("energy", name, 0, unused.get(name)) for name in ENERGY})


def _machine(r: _Reader) -> dict[str, Any]:
    passes = r.keys("passes")
    for name in passes:
        if name not in SCALAR:
            r.fault(f"[passes] names {name[:40]}, which is not a scalar operator", f"passes.{name}")
            r.asked.add(f"passes.{name}")
    machine: dict[str, Any] = {
        "clock_hz": r.number("clock", "hz"),
        "memory_bytes": r.number("memory", "bytes"),
        "line_bytes": r.number("memory", "line_bytes", max(SIZE.values())),
        "read_ports": r.number("memory", "read_ports"),
        "write_ports": r.number("memory", "write_ports"),
        "copies": r.number("memory", "copies", default=1),
        "passes": MappingProxyType({name: r.number("passes", name) for name in passes if name in SCALAR}),
        "energy": _energy(r),
    }
    machine["weights"], machine["matrix"] = _planes(r)
    return machine | {
        "vector": _vector(r),
        "move": Unit(**(_unit(r, "move", tile=True) if r.has("move") else _absent("move"))),
        "link_in": _link(r, "link_in"),
        "link_out": _link(r, "link_out"),
        "external": _external(r),
        "control": Unit(**(_unit(r, "control", tile=False) if r.has("control") else _absent("control"))),
    }


def _check(r: _Reader, target: Target) -> None:
    """What no single figure shows: ports that memory does not have, planes without a load port."""
    for kind, limit in (("read", target.read_ports), ("write", target.write_ports)):
        total = 0
        for name in READ_PORTS:
            unit = target.unit(name)
            mine = [count for port, count in unit.ports.items() if (port == "out") == (kind == "write")]
            total += unit.instances * sum(mine)
        if total > limit:
            said = f"the units' {kind} ports come to {total} but memory.{kind}_ports is {limit}"
            r.fault(said, f"memory.{kind}_ports")
    if target.weights.instances != target.matrix.instances:
        said = "weights.instances must equal matrix.instances: every plane has one load port"
        r.fault(said, "weights.instances")
    if target.line_bytes % max(SIZE.values()) or target.memory_bytes % target.line_bytes:
        said = "memory.line_bytes must be a multiple of 8, and memory.bytes of memory.line_bytes"
        r.fault(said, "memory.line_bytes")


def _read(text: str) -> tuple[dict[str, Any], str]:
    """The data of a file, and the same as one text whatever the layout."""
    try:
        data = tomllib.loads(text)
        canonical = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    except RecursionError:
        raise ModelError("target file: it is nested deeper than any description of a processor") from None
    except TypeError:  # of all that TOML knows, JSON has no dates and times
        raise ModelError("target file: no setting is a date or a time; write it as a text") from None
    except tomllib.TOMLDecodeError as error:
        raise ModelError(f"target file: not valid TOML: {error}") from None
    except ValueError:  # Python's own limit
        raise ModelError("target file: a number has thousands of digits; no figure is so large") from None
    return data, canonical


def parse(text: str) -> Target:
    """The target that a file's text describes; ``ModelError`` with every figure at fault and its line."""
    data, canonical = _read(text)
    name = data.get("name", "?")
    r = _Reader(name if isinstance(name, str) and NAME.fullmatch(name) else "?", data, _lines(text))
    version = data.get("version")
    if type(version) is not int or version < 1:
        r.fault("'version' must be a whole number of at least 1; write version = 1 at the top of the file", "version")
        version = 1
    if "name" in data and r.name == "?" and isinstance(name, str) and name:
        said = "at most 64 letters, digits, points, hyphens and underscores; it begins with one of the first two"
        r.fault(f"'name' must be {said}", "name")
    target = Target(
        name=r.text("name"),
        version=version,
        title=r.text("title"),
        price_class=r.text("price_class"),
        digest=hashlib.sha256(canonical.encode()).hexdigest(),
        **_machine(r),
        figures=MappingProxyType(r.figures),
    )
    r.refuse_unknown()
    if not r.faults:  # a figure that is missing fits to no other
        _check(r, target)
    r.refuse()
    return target


def _lines(text: str) -> dict[str, int]:
    """The line of every table and setting that is written in the usual way, for messages only."""
    found: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.split("\n"), 1):
        if heading := _TABLE.match(line):
            table = f"{heading[1]}."
            found.setdefault(heading[1], number)
        elif key := _KEY.match(line):
            found.setdefault(f"{table}{key[1]}", number)
    return found
