"""Reads the text of a target file strictly: a missing, unknown or impossible figure is refused with what to change."""

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
from compiler.isa.element import SIZE, SUMS
from compiler.isa.machine import (
    NO_EXTERNAL,
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

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
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
    """Takes figures out of a parsed file one by one and knows in the end what was not asked for."""

    def __init__(self, name: str, data: dict[str, Any]) -> None:
        self.name = name
        self.data = data
        self.figures: dict[str, tuple[Any, str]] = {}
        self.sections: set[str] = set()

    def error(self, message: str) -> ModelError:
        return ModelError(f"target {self.name}: {message}")

    def text(self, key: str) -> str:
        value = self.data.get(key)
        if not isinstance(value, str) or not value:
            raise self.error(f"'{key}' must be a text; add {key} = \"...\" at the top of the file")
        return value

    def number(self, section: str, key: str, low: int = 1, default: int | None = None) -> int:
        value = self._figure(section, key, default)
        high = MOST.get(key, MOST[""]) if section != "passes" else MOST["passes"]
        if type(value) is not int or not low <= value <= high:
            raise self.error(
                f"{section}.{key} must be a whole number of at least {low} and at most {high}, not {repr(value)[:80]}"
            )
        return value

    def pair(self, section: str, key: str) -> tuple[int, int]:
        value = self._figure(section, key, None)
        most = MOST[section]
        if (
            not isinstance(value, list)
            or len(value) != 2
            or any(type(v) is not int or not 0 < v <= most for v in value)
        ):
            raise self.error(
                f"{section}.{key} must be two positive whole numbers [rows, columns] of at most {most}, not {repr(value)[:80]}"
            )
        return value[0], value[1]

    def choice(self, section: str, key: str, allowed: tuple[str, ...]) -> str:
        value = self._figure(section, key, None)
        if value not in allowed:
            raise self.error(f"{section}.{key} must be {' or '.join(map(repr, allowed))}, not {value!r}")
        return str(value)

    def has(self, section: str) -> bool:
        """Whether the file describes such a unit at all."""
        return isinstance(self.data.get(section), dict)

    def keys(self, section: str) -> list[str]:
        table: Any = self.data
        for part in section.split("."):
            table = table.get(part, {}) if isinstance(table, dict) else {}
        self.sections.add(section)
        return list(table) if isinstance(table, dict) else []

    def _figure(self, section: str, key: str, default: int | None) -> Any:
        table: Any = self.data
        for part in section.split("."):
            table = table.get(part, {}) if isinstance(table, dict) else {}
        entry = table.get(key) if isinstance(table, dict) else None
        path = f"{section}.{key}"
        if entry is None and default is not None:
            return default
        if not isinstance(entry, dict) or set(entry) != {"value", "source"}:
            raise self._unwritten(section, key, table, entry)
        source = entry["source"]
        if not isinstance(source, str) or source.split(":")[0].split(" ")[0] not in KINDS:
            raise self.error(f"the source of {path} must begin with one of {', '.join(KINDS)}")
        self.figures[path] = (entry["value"], source)
        return entry["value"]

    def _unwritten(self, section: str, key: str, table: Any, entry: Any) -> ModelError:
        """Why a figure is none: it is not there, under another name, or not written as one."""
        form = f'write {key} = {{ value = ..., source = "..." }} in [{section}]'
        if entry is not None:
            said = ", ".join(map(repr, entry)) or "nothing" if isinstance(entry, dict) else f"just {entry!r}"
            return self.error(f"{section}.{key} must have a value and a source, not {said}; {form}")
        if not isinstance(table, dict):
            return self.error(f"[{section}] must be one table of figures, not {str(table)[:40]!r}; {form}")
        close = get_close_matches(key, [name for name in table if f"{section}.{name}" not in self.figures], 1)
        called = f" (there is a {section}.{close[0]})" if close else ""
        return self.error(f"{section}.{key} is missing{called}; {form}")

    def refuse_unknown(self) -> None:
        """Every figure in the file must have been asked for."""

        def walk(prefix: str, table: dict[str, Any]) -> None:
            for key, value in table.items():
                path = f"{prefix}{key}"
                if not isinstance(value, dict):
                    raise self.error(f"there is no setting '{path}'; remove it")
                if "value" in value:
                    if path not in self.figures:
                        raise self.error(f"there is no figure '{path}'; remove it or correct its name")
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
        raise r.error(f"matrix.tiles takes at least one of {', '.join(SUMS)}, not {', '.join(wrong) or 'none'}")
    weights = WeightsUnit(**_unit(r, "weights", tile=False), bytes_per_cycle=r.number("weights", "bytes_per_cycle"))
    return weights, MatrixUnit(
        **_unit(r, "matrix", tile=False),
        tiles=MappingProxyType({name: r.pair("matrix.tiles", name) for name in types}),
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
    wanted = [name for name in ENERGY if name != "external_byte" or r.has("external")]
    return MappingProxyType({"external_byte": 0} | {name: r.number("energy", name, 0) for name in wanted})


def _machine(r: _Reader) -> dict[str, Any]:
    passes = r.keys("passes")
    unknown = [name for name in passes if name not in SCALAR]
    if unknown:
        raise r.error(f"[passes] names {unknown[0]}, which is not a scalar operator")
    machine: dict[str, Any] = {
        "clock_hz": r.number("clock", "hz"),
        "memory_bytes": r.number("memory", "bytes"),
        "line_bytes": r.number("memory", "line_bytes", max(SIZE.values())),
        "read_ports": r.number("memory", "read_ports"),
        "write_ports": r.number("memory", "write_ports"),
        "copies": r.number("memory", "copies", default=1),
        "passes": MappingProxyType({name: r.number("passes", name) for name in passes}),
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
            raise r.error(f"the units' {kind} ports come to {total} but memory.{kind}_ports is {limit}")
    if target.weights.instances != target.matrix.instances:
        raise r.error("weights.instances must equal matrix.instances: every plane has one load port")
    if target.line_bytes % max(SIZE.values()) or target.memory_bytes % target.line_bytes:
        raise r.error("memory.line_bytes must be a multiple of 8, and memory.bytes of memory.line_bytes")


def parse(text: str) -> Target:
    """The target that a file's text describes; ``ModelError`` with the figure at fault."""
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
    name = data.get("name", "?")
    r = _Reader(name if isinstance(name, str) and NAME.fullmatch(name) else "?", data)
    version = data.get("version")
    if type(version) is not int or version < 1:
        raise r.error("'version' must be a whole number of at least 1; write version = 1 at the top of the file")
    if not NAME.fullmatch(r.text("name")):
        raise r.error(
            "'name' must be at most 64 letters, digits, points, hyphens and underscores; it begins with one of the first two"
        )
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
    _check(r, target)
    return target
