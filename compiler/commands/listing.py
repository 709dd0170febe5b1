"""Reports, inspections and counters as lines of text."""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.isa.element import NUMPY
from compiler.isa.resources import Counters
from compiler.precision.error import ENDLESS
from compiler.program import Program
from compiler.reporting.whole import microseconds
from compiler.targets import Target


def headline(h: dict[str, Any]) -> list[str]:
    """What it is, how fast, how much."""
    exact = "exact" if h["exact"] else f"bound: {h['reason']}"
    return [
        f"{h['model'] or 'program'} for {h['target']} ({h['precision']}), digest {h['digest'][:16]}",
        f"  latency {h['latency_cycles']} cycles ({h['latency_us']} us), interval {h['interval_cycles']} cycles",
        f"  {h['operations']} operations, {exact}",
    ]


def report(data: dict[str, Any]) -> list[str]:
    """Headline, distance to the bounds, storage, then one line per operation."""
    lines = headline(data["headline"])
    for name, row in data["bounds"].items():
        lines.append(
            f"  {name:8} {row['ours']:>12}   bound {row['bound']:>12}   ratio {row['ratio'] or '-'}   {row['limit']}"
        )
    lines += accuracy(data["accuracy"])
    storage = data["resources"]["storage"]
    lines.append("  storage  " + ", ".join(f"{name} {size}" for name, size in storage.items()))
    lines.append("  " + loading(data["resources"]["load"], data["headline"]["clock_hz"]))
    lines.append(f"  {'operation':48} {'kind':12} {'operations':>14} {'cycles':>9} {'energy fJ':>16}  limited by")
    for row in data["per_operation"]:
        name = row["name"] if len(row["name"]) <= 48 else "..." + row["name"][-45:]  # the column's width
        lines.append(
            f"  {name:48} {row['kind']:12} {row['operations']:>14} {row['cycles']:>9} {row['energy_fj']:>16}  {row['limiting']}"
        )
    total = data["totals"]
    lines.append(f"  {'total':48} {'':12} {total['operations']:>14} {total['cycles']:>9} {total['energy_fj']:>16}")
    return lines


def loading(load: dict[str, int], clock_hz: int) -> str:
    """What crosses the link before the first cycle, and how long that takes."""
    kinds = ", ".join(f"{kind} {load[kind]}" for kind in ("instructions", "constants", "state", "external"))
    time = microseconds(load["cycles_in"], clock_hz)
    return f"loading  {load['bytes_in']} bytes in {load['cycles_in']} cycles ({time} us): {kinds}"


def accuracy(found: dict[str, Any]) -> list[str]:
    """What a narrow precision loses, on which inputs that was measured, and how large inputs may be; nothing for float32."""
    if not found:
        return []
    lines = []
    for name, row in found["outputs"].items():
        changed = f", another class first in {row['changed_top1']}" if "changed_top1" in row else ""
        if row["max"] >= ENDLESS:
            lines.append(
                f"  {name}: some elements are no numbers any more; give typical inputs, or compile for float32"
            )
            continue
        kept = "no difference" if row["max"] == 0 else f"{row['snr_db']:.1f} dB"
        lines.append(
            f"  {name}: {kept}, largest error {row['max']:.3g} ({row['relative']:.2%} of the largest element){changed}"
        )
    made_up = found["calibration"] == "seeded feeds"
    source = "made-up inputs (give typical ones with --examples)" if made_up else "given examples"
    others = f"errors measured on {found['measured']} others" if found["unseen"] else "errors measured on the same"
    others = others if found["measured"] else "for a model that is not named: no errors were measured on this one"
    lines.append(f"  ranges from {found['feeds']} {source}, {others}")
    spans = [f"{name} {low:.3g} to {high:.3g}" for name, (low, high) in found["inputs"].items()]
    return lines + ([f"  made for {', '.join(spans)}; what lies beyond may saturate"] if spans else [])


def inspection(data: dict[str, Any]) -> list[str]:
    lines = [
        f"{data['name'] or 'model'}: {data['parameters']} parameters, {sum(data['operators'].values())} operations"
    ]
    for kind in ("inputs", "outputs"):
        lines += [f"  {kind[:-1]} {v['name']}: {v['dtype']}{_shape(v['shape'])}" for v in data[kind]]
    lines += [f"  choose dimension {name!r}: {', '.join(where)}" for name, where in data["open_dims"].items()]
    lines += [f"  {count:>5} {name}" for name, count in data["operators"].items()]
    lines += [f"  not supported: {name}" for name in data["unknown_operators"]]
    return lines


def _shape(dims: list[int | str] | None) -> str:
    if dims is None:
        return ", shape not stated"
    return f"[{', '.join(str(d) if d != '' else '?' for d in dims)}]" if dims else ", a scalar"


def counters(c: Counters) -> list[str]:
    lines = []
    for name, value in c.to_json().items():
        lines.append(f"{name}: {', '.join(f'{k} {v}' for k, v in value.items()) if isinstance(value, dict) else value}")
    return lines


def execution(c: Counters, promised: Counters, outputs: dict[str, Any]) -> dict[str, Any]:
    """What was counted beside what was promised, and the shapes of the outputs, as data."""
    return {
        "counters": c.to_json(),
        "equal": c == promised,
        "within": c.within(promised),
        "promised": promised.to_json(),
        "outputs": {name: list(array.shape) for name, array in outputs.items()},
    }


def kept(c: Counters, promised: Counters) -> list[str]:
    """Whether an execution kept what the program promises: the same where that is exact, else no more."""
    if promised.exact:
        return [f"counters equal the program's resources: {'yes' if c == promised else 'no'}"]
    return [
        f"bound: {promised.reason}",
        f"executed {c.cycles} of at most {promised.cycles} cycles, {c.operations} of at most {promised.operations} operations",
        f"no counter exceeds the program's resources: {'yes' if c.within(promised) else 'no'}",
    ]


def target(t: Target) -> dict[str, Any]:
    """A processor version in short."""
    return {
        "name": t.name,
        "version": t.version,
        "title": t.title,
        "price_class": t.price_class,
        "digest": t.digest,
        "clock_hz": t.clock_hz,
        "memory_bytes": t.memory_bytes,
    }


def seeded(program: Program, seed: int) -> dict[str, Any]:
    """One value for each input: normal numbers for floats, 0 or 1 for whole numbers and truth values."""
    rng = np.random.default_rng(seed)
    feeds = {}
    for port in program.binary.ports:
        if not port.output:
            dtype = NUMPY[port.host or port.dtype]
            array = rng.standard_normal(port.shape) if dtype.kind == "f" else rng.integers(0, 2, port.shape)
            feeds[port.name] = np.asarray(array).astype(dtype)
    return feeds
