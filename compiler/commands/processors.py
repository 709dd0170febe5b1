"""The commands about processors: list them, begin a file, check it against measurements, compare a model on several."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from compiler import probing, targets
from compiler.commands import examples, files, listing
from compiler.commands.guard import WrongOption
from compiler.commands.options import add_course, add_sizes, loaded, processor, sizes
from compiler.commands.progress import shown
from compiler.commands.tables import add_formats, comma_separated, markdown, numbers
from compiler.comparison import compare
from compiler.errors import ModelError
from compiler.precision import PRECISIONS
from compiler.probing.check import words
from compiler.probing.trace import rows_of
from compiler.targets import Target

RIGHT, OFF, UNUSABLE = 0, 1, 2


def add_commands(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Add list, new, check and compare below a command of a parser; without ``required`` the bare command lists."""
    parser.set_defaults(run=run_list)
    commands = parser.add_subparsers(required=required, metavar="command")
    rows = commands.add_parser("list", help="the processors that ship with the compiler")
    rows.set_defaults(run=run_list)
    new = commands.add_parser(
        "new",
        help="write a commented file of a processor, to be changed into your own",
        description="Writes a file that describes a processor, with a comment on each figure, for you to change into your own: "
        "docs/compiler/targets.md says what each figure means. A file that is there already is not overwritten.",
    )
    new.add_argument("file", help="the file to write, such as chip.toml; its name becomes that of the processor")
    new.set_defaults(run=run_new)
    check = commands.add_parser(
        "check",
        help="validate a processor's file, warn of costly figures, and compare it with measurements",
        description="Reads a processor's file and says all that is wrong with it. Alone it compiles common layers for the "
        "processor and warns of figures that make them much slower than need be. With --trace it compares the cycles that it "
        "predicts with measured ones, "
        "instruction by instruction. Exit status 1 when one is off, 2 when the two cannot be compared.",
    )
    check.add_argument("target", help="the processor's file, or the name of a shipped one")
    check.add_argument("--trace", type=Path, help="measured cycles, as CSV (see --emit-programs)")
    check.add_argument(
        "--emit-programs", type=Path, metavar="DIR", help="write the micro-programs and an empty trace to fill in"
    )
    check.set_defaults(run=run_check, failed=UNUSABLE)
    add_compare(commands)
    for command in (rows, new, check):
        add_formats(command, "json")


def add_compare(commands: Any) -> None:
    """Add the command that compares a model on several processors."""
    both = commands.add_parser(
        "compare",
        help="compile a model for several processors and precisions, side by side",
        description="Compiles a model for several processors and precisions and shows cycles, memory and energy side by side.",
    )
    both.add_argument("model", help="an ONNX file, or a file in the text form")
    both.add_argument("--target", action="append", help="a name or a file; may be repeated (default: all shipped ones)")
    both.add_argument("--precision", action="append", choices=PRECISIONS, help="may be repeated (default: float32)")
    add_sizes(both)
    add_course(both)
    examples.add_options(both, ranges=False)
    add_formats(both)
    both.set_defaults(run=run_compare)


def run_list(options: argparse.Namespace) -> int:
    rows = [listing.target(targets.load(name)) for name in targets.names()]
    lines = [f"{r['name']:8} {r['title']} ({r['clock_hz'] // 10**6} MHz, {r['memory_bytes']:,} bytes)" for r in rows]
    return _print(options, rows, lines)


def run_new(options: argparse.Namespace) -> int:
    """Write the template under the name of the file. ``WrongOption`` for a file that is there, and a name it cannot have."""
    path = Path(options.file)
    if not targets.NAME.fullmatch(path.stem) or path.suffix != ".toml":
        raise WrongOption(f"{path}: name the file like the processor, letters, digits and hyphens, such as chip.toml")
    if path.stem in targets.names():
        raise WrongOption(f"{path}: {path.stem} is the name of a shipped processor; give yours another name")
    if path.exists():
        raise WrongOption(f"{path}: it is there already; name another file")
    files.write(path, targets.template(path.stem).encode(), "target new")
    lines = [f"wrote {path}; change its figures, then: takt target check {path}"]
    return _print(options, {"file": str(path)}, lines)


def run_check(options: argparse.Namespace) -> int:
    """0: the file is sound and nothing measured contradicts it; 1: an instruction is off; 2: it cannot be checked."""
    target = _sound(options)
    programs = probing.micro_programs(target)
    data: dict[str, Any] = listing.target(target) | {"figures": len(target.figures), "programs": len(programs)}
    lines = summary(target, len(programs))
    if options.emit_programs is not None:
        _emit(options.emit_programs, programs)
        lines.append(f"wrote {len(programs)} programs and trace.csv to {options.emit_programs}")
    if options.trace is not None:
        return _compare_trace(options, target, programs, data, lines)
    data["warnings"] = probing.advice(target) if options.emit_programs is None else []
    return _print(options, data, lines + [f"warning: {text}" for text in data["warnings"]])


def _sound(options: argparse.Namespace) -> Target:
    """The processor; ``ModelError`` after its faults are printed, where there are several."""
    try:
        return targets.resolve(options.target)
    except ModelError as error:
        faults = [fault.message for fault in error.problems]
        if faults:
            _print(options, {"faults": faults}, faults)
        raise ModelError(error.message) from None  # without a hint at --target, which this command does not take


def _compare_trace(
    options: argparse.Namespace,
    target: Target,
    programs: list[probing.MicroProgram],
    data: dict[str, Any],
    lines: list[str],
) -> int:
    what = "the trace.csv that --emit-programs writes"
    files.read(options.trace, "--trace", what)
    verdicts = probing.check(target, programs, probing.read_trace(options.trace))
    measured, rows = (sum(getattr(v, field) for v in verdicts) for field in ("measured", "rows"))
    if not measured:
        raise ModelError(
            f"--trace {options.trace}: nothing was measured, as no row has cycles; fill in that column of {what}"
        )
    off = [v.instruction for v in verdicts if not v.ok]
    found = [line for verdict in verdicts for line in words(verdict)]
    lines = [*lines, *found, f"{measured} of {rows} rows measured; {_result(verdicts, off)}"]
    _print(options, data | {"verdicts": [v.to_json() for v in verdicts], "ok": not off}, lines)
    return OFF if off else RIGHT


def _result(verdicts: list[probing.Verdict], off: list[str]) -> str:
    silent = [v.instruction for v in verdicts if not v.measured]
    left = f"; not measured: {', '.join(silent)}" if silent else ""
    return (f"off: {', '.join(off)}" if off else "nothing is off") + left


def summary(target: Target, programs: int) -> list[str]:
    """What a processor's file says, in a few lines."""
    units = ", ".join(f"{unit.instances} {name}" for name, unit in target.classes())
    rate = 2 * target.matrix.instances * target.clock_hz / 1e12
    peak = [f"{k * n * rate:.2f} TOPS {dtype}" for dtype, (k, n) in target.matrix.tiles.items()]
    outside = target.external
    lines = [
        f"{target.name}: {target.title}, digest {target.digest[:16]}",
        f"  {len(target.figures)} figures with sources; {target.clock_hz / 1e6:g} MHz, {target.memory_bytes:,} bytes on chip",
        f"  units: {units}",
        f"  peak: {', '.join(peak) or 'no planes'}",
    ]
    if outside.instances:
        pins = outside.bytes_per_cycle * target.clock_hz / 1e9
        lines.append(f"  external memory: {outside.capacity:,} bytes at {pins:g} GB/s")
    return [*lines, f"  {programs} micro-programs probe its instructions"]


def _emit(folder: Path, programs: list[probing.MicroProgram]) -> None:
    from compiler.isa.assembly import disassemble

    option = "--emit-programs"
    files.make_folder(folder, option)
    for program in programs:
        files.write(folder / f"{program.name}.bin", program.binary.to_bytes(), option)
        files.write(folder / f"{program.name}.asm", disassemble(program.binary).encode(), option)
    files.write(folder / "trace.csv", probing.write_trace(rows_of(programs)).encode(), option)


def run_compare(options: argparse.Namespace) -> int:
    chosen = [processor(name) for name in options.target or targets.names()]
    sizes(options.dim)
    with shown(options.progress) as on_stage:
        graph = loaded(files.source(options.model), options, on_stage)
        precisions = options.precision or ["float32"]
        examples.check(options, precisions)
        rows = compare(graph, chosen, precisions, examples.feeds(graph, options.examples), on_stage=on_stage)  # type: ignore[arg-type]  # of one size
    if options.form == "csv":
        sys.stdout.write(
            comma_separated([dict.fromkeys((n for r in rows for n in r if n != "levers"), None) | r for r in rows])
        )
        return RIGHT
    if options.form == "markdown":
        lines = markdown((*HEAD, ""), [(*_figures(r), "" if r["fits"] else r["reason"]) for r in rows], left=2)
    else:
        lines = comparison(rows)
    return _print(options, numbers(rows), lines)


HEAD = (
    "target",
    "precision",
    "cycles",
    "us",
    "x bound",
    "interval",
    "inferences/s",
    "x bound",
    "bytes on chip",
    "bytes external",
    "energy uJ",
    "loading",
)


def comparison(rows: list[dict[str, Any]]) -> list[str]:
    """Rows of a comparison as a table; one that does not fit says why."""
    figures = [HEAD, *map(_figures, rows)]
    widths = [max(len(row[n]) for row in figures if len(row) > n) for n in range(len(HEAD))]
    lines = []
    for cells, row in zip(figures, [None, *rows], strict=True):
        told = [
            f"{cell:{'>' if n > 1 else '<'}{width}}" for n, (cell, width) in enumerate(zip(cells, widths, strict=False))
        ]
        lines.append(" ".join([*told, *([] if row is None or row["fits"] else [row["reason"]])]))
    return lines


def _figures(r: dict[str, Any]) -> tuple[str, ...]:
    if not r["fits"]:
        return r["target"], r["precision"]
    counts = [f"{r[name]:,}" for name in ("cycles", "interval", "storage", "external", "load_cycles")]
    time, rate, energy = r["nanoseconds"] / 1000, r["clock_hz"] / r["interval"], f"{r['energy_fj'] / 1e9:,.3f}"
    latency, interval = (r[name] or "-" for name in ("latency_ratio", "interval_ratio"))
    return (
        *(r["target"], r["precision"], counts[0], f"{time:,.3f}", latency),
        *(counts[1], f"{rate:,.0f}", interval, counts[2], counts[3], energy, counts[4]),
    )


def _print(options: argparse.Namespace, data: Any, lines: list[str]) -> int:
    sys.stdout.write((json.dumps(data, indent=1) if options.form == "json" else "\n".join(lines)) + "\n")
    return RIGHT
