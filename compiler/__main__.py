"""The command ``python -m compiler``: inspect, compile, report, disassemble, simulate, diff, targets.

Errors are one line on standard error and exit status 1 (of diff 2: there 1 says that a budget is exceeded).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import compiler
from compiler.bundle import Bundle, read_programs
from compiler.commands import diff, listing, processors
from compiler.errors import ModelError
from compiler.program import Program


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; answers the exit status."""
    options = _parser().parse_args(arguments)
    try:
        status = options.run(options)
    except BrokenPipeError:
        return 1
    except (ModelError, compiler.SimulationError, OSError) as error:
        message = str(error).replace("\n", " ")
        if options.json and isinstance(error, compiler.DoesNotFit):
            print(json.dumps(error.to_json()))
        print(f"error: {message}", file=sys.stderr)
        return 1
    return int(status or 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m compiler", description="Compile ONNX models to programs of known cost."
    )
    commands = parser.add_subparsers(required=True, metavar="command")

    def add(name: str, run: Any, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--json", action="store_true", help="print data instead of text")
        command.set_defaults(run=run)
        return command

    add("inspect", _inspect, "What a model contains and which dimensions it leaves open.").add_argument("model")
    build = add("compile", _compile, "Compile a model; several sizes of a dimension make a bundle.")
    build.add_argument("model")
    build.add_argument("-o", "--output", required=True, help="file for the program")
    _choices(build)
    show = add("report", _report, "The cost of a model or of a compiled program, operation by operation.")
    show.add_argument("file", help="an ONNX model or a program")
    _choices(show)
    text = add("disassemble", _disassemble, "The instructions of a program.")
    text.add_argument("program")
    run = add("simulate", _simulate, "Execute a program and compare what it counts with what it promised.")
    run.add_argument("program")
    run.add_argument("--inputs", help="an .npz file with one array per input (default: seeded numbers)")
    run.add_argument("--outputs", help="file for the outputs (.npz)")
    run.add_argument("--seed", type=int, default=0)
    both = commands.add_parser("diff", help="What a change of a model does to its cost.", description=diff.ABOUT)
    diff.add_options(both)
    both.set_defaults(run=diff.run_alone, json=False)
    listed = add(
        "targets", processors.run_list, "The processors that programs can be compiled for; check or compare them."
    )
    processors.add_commands(listed, required=False)
    return parser


def _choices(command: argparse.ArgumentParser) -> None:
    command.add_argument("--target", default="lpu", help="processor (see targets)")
    command.add_argument("--precision", default="float32")
    command.add_argument(
        "--dim",
        action="append",
        default=[],
        metavar="NAME=SIZE[,SIZE...]",
        help="size, or buckets, of an open dimension",
    )
    command.add_argument(
        "--state",
        action="append",
        default=[],
        metavar="INPUT=OUTPUT",
        help="an input that stays and becomes the output",
    )
    command.add_argument(
        "--bound", action="append", default=[], metavar="LOOP=TRIPS", help="most trips of a loop that the data ends"
    )


def _print(options: argparse.Namespace, data: Any, lines: list[str]) -> None:
    print(json.dumps(data, indent=2) if options.json else "\n".join(lines))


def _dims(options: argparse.Namespace) -> dict[str, int | list[int]]:
    found: dict[str, int | list[int]] = {}
    for text in options.dim:
        name, equals, sizes = text.rpartition("=")
        try:
            numbers = [int(size) for size in sizes.split(",")]
        except ValueError:
            numbers = []
        if not equals or not numbers:
            raise ModelError(f"--dim takes NAME=SIZE or NAME=SIZE,SIZE, not {text!r}")
        found[name] = numbers if len(numbers) > 1 else numbers[0]
    return found


def _bounds(options: argparse.Namespace) -> dict[str, int]:
    found = {}
    for text in options.bound:
        name, _, trips = text.rpartition("=")
        if not name or not trips.isdigit():
            raise ModelError(f"--bound takes LOOP=TRIPS, not {text!r}")
        found[name] = int(trips)
    return found


def _compiled(path: str, options: argparse.Namespace) -> Program | Bundle:
    states = [(name, update) for name, _, update in (text.partition("=") for text in options.state)]
    graph = compiler.load(path, dims=_dims(options), states=states, bounds=_bounds(options))
    return compiler.compile(graph, target=options.target, precision=options.precision)


def _programs(found: Program | Bundle) -> list[Program]:
    return list(found.programs) if isinstance(found, Bundle) else [found]


def _inspect(options: argparse.Namespace) -> None:
    data = compiler.inspect(options.model)
    _print(options, data, listing.inspection(data))


def _compile(options: argparse.Namespace) -> None:
    found = _compiled(options.model, options)
    data = found.to_bytes()
    Path(options.output).write_bytes(data)
    programs = _programs(found)
    rows = [p.report()["headline"] for p in programs]
    _print(
        options,
        rows,
        [f"wrote {len(data)} bytes to {options.output}", *(line for row in rows for line in listing.headline(row))],
    )


def _report(options: argparse.Namespace) -> None:
    data = Path(options.file).read_bytes()
    known = data[:8] in (b"TAKTBIN\n", b"TAKTBUN\n")
    programs = _programs(read_programs(data) if known else _compiled(options.file, options))
    reports = [p.report() for p in programs]
    lines = [line for report in reports for line in listing.report(report)]
    _print(options, reports[0] if len(reports) == 1 else reports, lines)


def _disassemble(options: argparse.Namespace) -> None:
    for program in _programs(read_programs(Path(options.program).read_bytes())):
        text = program.disassemble()
        _print(options, {"digest": program.digest, "text": text}, [text.rstrip("\n")])


def _simulate(options: argparse.Namespace) -> None:
    given = dict(np.load(options.inputs)) if options.inputs else None
    for program in _programs(read_programs(Path(options.program).read_bytes())):
        feeds = given if given is not None else listing.seeded(program, options.seed)
        outputs, counters = compiler.simulate(program.to_bytes(), feeds)
        if options.outputs:
            np.savez(options.outputs, allow_pickle=False, **outputs)
        promised = program.resources
        equal, kept = counters == promised, counters.within(promised)
        data = {
            "counters": counters.to_json(),
            "equal": equal,
            "within": kept,
            "promised": promised.to_json(),
            "outputs": {n: list(a.shape) for n, a in outputs.items()},
        }
        _print(
            options,
            data,
            [*listing.counters(counters), *listing.kept(counters, promised)],
        )
        if not kept:
            raise ModelError("the execution does not count what the program promised; this is a defect of the compiler")


if __name__ == "__main__":
    sys.exit(main())
