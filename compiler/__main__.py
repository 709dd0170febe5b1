"""The command ``python -m compiler``: inspect, compile, report, disassemble, simulate, diff, targets, completion.

Errors are one line on standard error and exit status 1 (of diff 2: there 1 says that a budget is exceeded).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import compiler
from compiler.bundle import Bundle, read_programs
from compiler.commands import completion, diff, files, listing, options, processors
from compiler.commands.guard import guarded
from compiler.errors import ModelError
from compiler.program import Program


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; answers the exit status."""
    chosen = parser().parse_args(arguments)
    return guarded(lambda: _run(chosen), prefix="error", failed=chosen.failed)


def _run(chosen: argparse.Namespace) -> int:
    try:
        return int(chosen.run(chosen) or 0)
    except compiler.DoesNotFit as error:
        if chosen.json:
            print(json.dumps(error.to_json()))
        raise


def parser() -> argparse.ArgumentParser:
    """The command line."""
    whole = argparse.ArgumentParser(
        prog="python -m compiler", description="Compile ONNX models to programs of known cost."
    )
    whole.set_defaults(failed=1)
    commands = whole.add_subparsers(required=True, metavar="command")

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
    show.add_argument("file", help="a model (ONNX or text form) or a program")
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
    both.set_defaults(run=diff.run, json=False, failed=diff.UNUSABLE)
    listed = add(
        "targets", processors.run_list, "The processors that programs can be compiled for; check or compare them."
    )
    processors.add_commands(listed, required=False)
    completion.add_command(commands, parser, "python -m compiler")
    return whole


def _choices(command: argparse.ArgumentParser) -> None:
    options.add_place(command)
    options.add_sizes(command, buckets=True)
    options.add_course(command)


def _print(chosen: argparse.Namespace, data: Any, lines: list[str]) -> None:
    print(json.dumps(data, indent=2) if chosen.json else "\n".join(lines))


def _programs(found: Program | Bundle) -> list[Program]:
    return list(found.programs) if isinstance(found, Bundle) else [found]


def _inspect(chosen: argparse.Namespace) -> None:
    data = compiler.inspect(chosen.model)
    _print(chosen, data, listing.inspection(data))


def _compile(chosen: argparse.Namespace) -> None:
    found = options.compiled(chosen.model, chosen)
    data = found.to_bytes()
    files.write(chosen.output, data)
    programs = _programs(found)
    rows = [p.report()["headline"] for p in programs]
    _print(
        chosen,
        rows,
        [f"wrote {len(data)} bytes to {chosen.output}", *(line for row in rows for line in listing.headline(row))],
    )


def _report(chosen: argparse.Namespace) -> None:
    data = Path(chosen.file).read_bytes()
    known = data[:8] in (b"TAKTBIN\n", b"TAKTBUN\n")
    programs = _programs(read_programs(data) if known else options.compiled(chosen.file, chosen))
    reports = [p.report() for p in programs]
    lines = [line for report in reports for line in listing.report(report)]
    _print(chosen, reports[0] if len(reports) == 1 else reports, lines)


def _disassemble(chosen: argparse.Namespace) -> None:
    for program in _programs(read_programs(Path(chosen.program).read_bytes())):
        text = program.disassemble()
        _print(chosen, {"digest": program.digest, "text": text}, [text.rstrip("\n")])


def _simulate(chosen: argparse.Namespace) -> None:
    given = files.read_arrays(chosen.inputs) if chosen.inputs else None
    programs = _programs(read_programs(Path(chosen.program).read_bytes()))
    if len(programs) > 1 and (given is not None or chosen.outputs):
        raise ModelError("the file holds programs of several sizes; --inputs and --outputs belong to one")
    if chosen.seed < 0:
        raise ModelError(f"--seed is a whole number of at least 0, not {chosen.seed}")
    for program in programs:
        feeds = given if given is not None else listing.seeded(program, chosen.seed)
        outputs, counters = compiler.simulate(program.to_bytes(), feeds)
        if chosen.outputs:
            files.write_arrays(chosen.outputs, outputs)
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
            chosen,
            data,
            [*listing.counters(counters), *listing.kept(counters, promised)],
        )
        if not kept:
            raise ModelError("the execution does not count what the program promised; this is a defect of the compiler")


if __name__ == "__main__":
    sys.exit(main())
