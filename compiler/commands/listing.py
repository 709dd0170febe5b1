"""Reports, inspections and counters as lines of text."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from compiler.commands.tables import escaped, line_of
from compiler.commands.tables import markdown as table
from compiler.ir import DType
from compiler.isa.resources import Counters
from compiler.precision.error import ENDLESS
from compiler.program import Program
from compiler.reporting.whole import microseconds
from compiler.targets import Target

WIDEST = 48  # characters of an operation's name


def headline(h: dict[str, Any]) -> list[str]:
    """What it is, how fast, how much: one line, then a few figures."""
    return [title(h), *_aligned(facts(h))]


def title(h: dict[str, Any]) -> str:
    """The model with its sizes, the processor, the precision, and whether the figures are exact."""
    sizes = "".join(f", {name} {size}" for name, size in h["dims"].items())
    exact = "exact" if h["exact"] else f"bound: {h['reason']}"
    return f"{line_of(h['model']) or 'program'}{sizes} on {h['target']} in {h['precision']} ({exact}), program {h['digest'][:16]}"


def facts(h: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Name, value with its unit, and what it means for the processor."""
    rate = Fraction(h["inferences_per_second"])
    return [
        ("latency", _time(h["latency_cycles"], h["clock_hz"]), ""),
        ("interval", _time(h["interval_cycles"], h["clock_hz"]), ""),
        ("throughput", f"{round(rate):,} inferences/s" if rate >= 100 else f"{float(rate):.3g} inferences/s", ""),
        ("operations", f"{h['operations']:,}", f"{_percent(h['peak_share'])} of peak"),
        (
            "memory",
            f"{h['memory_used']:,} bytes",
            f"{_percent(h['memory_share'])} of {h['memory_bytes']:,} bytes on chip",
        ),
    ]


def summary(data: dict[str, Any]) -> list[tuple[str, str, str]]:
    """All figures of a report that are not of one operation; those beside a proven bound say how near they are."""
    h, r, bounds = data["headline"], data["resources"], data["bounds"]
    storage, load = r["storage"], r["load"]
    streamed = storage["total"] - h["memory_used"]
    kinds = ("weights", "activations", "state", *(() if streamed else ("instructions",)), "scratch")
    near = {name: _near(bounds[name]) for name in ("latency", "interval")}
    more = {"memory": f": {_sizes(storage, kinds)}"}
    crossing = _sizes(load, ("instructions", "constants", "state", "external"))
    return [
        *((name, value, near.get(name, note + more.get(name, ""))) for name, value, note in facts(h)),
        ("live buffers", f"{bounds['memory']['ours']:,} bytes", _near(bounds["memory"])),
        *_external(storage["external"], streamed),
        ("IO", f"{r['io']['bytes_in']:,} bytes in, {r['io']['bytes_out']:,} bytes out", ""),
        ("energy", f"{r['energy_fj'] / 1e9:,.3f} uJ", ""),
        *_token(data.get("sequence", {})),
        (
            "loading",
            f"{load['bytes_in']:,} bytes in {_time(load['cycles_in'], h['clock_hz'])}",
            f"before the first inference: {crossing}",
        ),
    ]


def _sizes(bytes_of: dict[str, int], kinds: Sequence[str]) -> str:
    """The kinds of which there are any bytes, with these."""
    return ", ".join(f"{kind} {bytes_of[kind]:,}" for kind in kinds if bytes_of[kind])


def _external(weights: int, instructions: int) -> list[tuple[str, str, str]]:
    """Bytes in external memory, in a row; none where nothing lies there."""
    if not weights + instructions:
        return []
    streamed = f", instructions {instructions:,} that are streamed" if instructions else ""
    return [("external", f"{weights + instructions:,} bytes", f"weights {weights:,}{streamed}")]


def _token(s: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What a token of a sequence costs, in a row; none where the program continues no sequence."""
    if not s:
        return []
    cost = f"{s['cycles_per_token']} cycles, {s['us_per_token']} us, {s['link_bytes_per_token']} bytes over the link"
    return [(f"{s['kind']} token", cost, f"{s['tokens']:,} in a run, {s['context']:,} in the context")]


def report(data: dict[str, Any], more: Sequence[str] = ()) -> list[str]:
    """Title, figures, accuracy, what a command adds, then one line for each operation."""
    lines = [title(data["headline"]), *_aligned(summary(data)), *accuracy(data["accuracy"]), *more]
    rows = _operations(data)
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for row in rows:
        cells = [
            f"{cell:{'<' if n in LEFT else '>'}{width}}"
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(f"  {'  '.join(cells)}".rstrip())
    return lines


def markdown(data: dict[str, Any], more: Sequence[str] = ()) -> list[str]:
    """The same as Markdown, with the operations folded."""
    (head, *rows), count = _operations(data), len(data["per_operation"])
    told = [escaped(line.strip()) for line in accuracy(data["accuracy"])]
    lines = [f"**{escaped(title(data['headline']))}**", "", *table(("", "", ""), summary(data), left=3)]
    lines += ["", *(f"- {line}" for line in told)] if told else []
    lines += ["", *more] if more else []
    return [
        *lines,
        "",
        f"<details><summary>{count} operations</summary>",
        "",
        *table(head, rows, left=2),
        "",
        "</details>",
        "",
    ]


LEFT = (0, 1, 6)  # columns of operations that are words


def _operations(data: dict[str, Any]) -> list[tuple[str, ...]]:
    cycles = data["totals"]["cycles"] or 1
    found: list[tuple[str, ...]] = [("operation", "kind", "operations", "cycles", "share", "energy nJ", "limited by")]
    for row in (*data["per_operation"], {"name": "total", "kind": "", "limiting": ""} | data["totals"]):
        name = line_of(row["name"])
        name = name if len(name) <= WIDEST else "..." + name[3 - WIDEST :]
        share = f"{row['cycles'] / cycles:.1%}".replace("%", " %")
        figures = f"{row['operations']:,}", f"{row['cycles']:,}", share, f"{row['energy_fj'] / 1e6:,.3f}"
        found.append((name, row["kind"], *figures, row["limiting"]))
    return found


def _aligned(rows: Sequence[tuple[str, str, str]]) -> list[str]:
    width = max(len(value) for _, value, _ in rows)
    return [f"  {name:13}{value:{width}}  {note}".rstrip() for name, value, note in rows]


def _time(cycles: int, clock_hz: int) -> str:
    whole, part = microseconds(cycles, clock_hz).split(".")
    return f"{cycles:,} cycles = {int(whole):,}.{part} us"


def _near(row: dict[str, Any]) -> str:
    return f"{row['ratio']} x the bound of {row['bound']:,}: {row['limit']}" if row["ratio"] else ""


def _percent(share: str) -> str:
    """Two digits after the point; more than none is never 0."""
    value = float(share) * 100
    return "less than 0.01 %" if 0 < value < 0.01 else f"{value:.2f} %"


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
        f"{data['name'] or 'model'}: {data['parameters']:,} parameters, {sum(data['operators'].values()):,} operations"
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
    return [f"{name}: {_counted(value)}" for name, value in c.to_json().items()]


def _counted(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_counted(one)}" for name, one in value.items())
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


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
        (
            f"executed {c.cycles:,} of at most {promised.cycles:,} cycles, "
            f"{c.operations:,} of at most {promised.operations:,} operations"
        ),
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
            dtype = DType(port.host or port.dtype)
            array = rng.standard_normal(port.shape) if dtype.is_float else rng.integers(0, 2, port.shape)
            feeds[port.name] = np.asarray(array).astype(dtype.numpy)
    return feeds
