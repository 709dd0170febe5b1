"""The command ``python -m compiler``: inspect, compile, print, report, disassemble, simulate, diff, targets, completion.

Errors are one line on standard error and exit status 1 (of diff and of targets check 2: there 1 is an answer). A command line
that is wrong in itself, such as an option's value, is status 2.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import compiler
from compiler.bundle import read_programs
from compiler.commands import completion, diff, examples, files, listing, options, printing, processors, programs
from compiler.commands.guard import Parser, WrongOption, guarded
from compiler.errors import ModelError

MODEL, PROGRAM = "an ONNX file, or a file in the text form", "a program or bundle that compile wrote"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; answers the exit status."""
    return guarded(lambda: parser().parse_args(arguments), _run, prefix="error", failed=1)


def _run(chosen: argparse.Namespace) -> int:
    try:
        return int(chosen.run(chosen) or 0)
    except compiler.DoesNotFit as error:
        if chosen.json:
            print(json.dumps(error.to_json()))
        raise


def parser() -> argparse.ArgumentParser:
    """The command line."""
    whole = Parser(prog="python -m compiler", description="Compile ONNX models to programs of known cost.")
    commands = whole.add_subparsers(required=True, metavar="command")

    def add(name: str, run: Any, text: str, *aliases: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text, aliases=aliases)
        command.add_argument("--json", action="store_true", help="print data instead of text")
        command.set_defaults(run=run)
        return command

    look = add("inspect", _inspect, "What a model contains and which dimensions it leaves open.")
    look.add_argument("model", help=MODEL)
    build = add("compile", _compile, "Compile a model; several sizes of a dimension make a bundle.")
    build.add_argument("model", help=MODEL)
    build.add_argument("-o", "--output", required=True, help="file for the program")
    _choices(build)
    examples.add_options(build, writes=True)
    written = add("print", printing.run, printing.ABOUT)
    written.add_argument("model", help=MODEL)
    printing.add_options(written)
    show = add("report", _report, "The cost of a model or of a compiled program, operation by operation.")
    show.add_argument("file", help="a model (ONNX or text form) or a program")
    _choices(show)
    examples.add_options(show)
    text = add("disassemble", _disassemble, "The instructions of a program.")
    text.add_argument("program", help=PROGRAM)
    run = add("simulate", _simulate, "Execute a program and compare what it counts with what it promised.")
    run.add_argument("program", help=PROGRAM)
    run.add_argument("--target", help=options.DESCRIBED)
    run.add_argument("--inputs", help="an .npz file with one array per input (default: seeded numbers)")
    run.add_argument("--outputs", help="file for the outputs (.npz)")
    run.add_argument("--seed", type=options.at_least(0), default=0, help="of the numbers that are made up (default: 0)")
    both = commands.add_parser("diff", help="What a change of a model does to its cost.", description=diff.ABOUT)
    diff.add_options(both)
    both.set_defaults(run=diff.run, json=False, failed=diff.UNUSABLE)
    listed = add(
        "targets",
        processors.run_list,
        "The processors that programs can be compiled for; describe, check or compare them.",
        "target",
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


def _inspect(chosen: argparse.Namespace) -> None:
    data = compiler.inspect(chosen.model)
    _print(chosen, data, listing.inspection(data))


def _compile(chosen: argparse.Namespace) -> None:
    _check_written(chosen)
    found = options.compiled(chosen.model, chosen)
    data = found.to_bytes()
    files.write(chosen.output, data, "--output")
    reports = [p.report() for p in programs.of(found)]
    lines = [line for r in reports for line in (*listing.headline(r["headline"]), *listing.accuracy(r["accuracy"]))]
    _print(chosen, [r["headline"] for r in reports], [f"wrote {len(data)} bytes to {chosen.output}", *lines])


def _check_written(chosen: argparse.Namespace) -> None:
    """Nothing that is read or written is written over."""
    read = [chosen.model, chosen.ranges, *chosen.examples]
    with suppress(ValueError):  # a path that ends in no name
        read.append(str(Path(chosen.model).with_suffix(".npz")))  # where the text form has its arrays
    files.keep(chosen.output, "--output", *read)
    if chosen.write_ranges is not None:
        files.keep(chosen.write_ranges, "--write-ranges", *read)
        if Path(chosen.write_ranges).absolute() == Path(chosen.output).absolute():
            raise WrongOption(f"--write-ranges {chosen.write_ranges}: the program goes there (--output); name another")


def _report(chosen: argparse.Namespace) -> None:
    data = files.read(chosen.file, "", "a model or a compiled program")
    if programs.is_program(data):
        programs.refuse_typed(chosen.file, chosen)
        found = programs.known(programs.of(read_programs(data)), options.described(chosen))
    else:
        found = programs.of(options.compiled(chosen.file, chosen))
    reports = [p.report() for p in found]
    lines = [line for report in reports for line in listing.report(report)]
    _print(chosen, reports[0] if len(reports) == 1 else reports, lines)


def _disassemble(chosen: argparse.Namespace) -> None:
    texts = [(program.digest, program.disassemble()) for program in programs.read(chosen.program)]
    rows = [{"digest": digest, "text": text} for digest, text in texts]
    _print(chosen, rows[0] if len(rows) == 1 else rows, [text.rstrip("\n") for _, text in texts])


def _simulate(chosen: argparse.Namespace) -> None:
    given = None if chosen.inputs is None else files.read_arrays(chosen.inputs)
    found = programs.known(programs.read(chosen.program), chosen.target)
    if len(found) > 1 and (given is not None or chosen.outputs is not None):
        raise WrongOption(f"{chosen.program} holds programs of several sizes; --inputs and --outputs belong to one")
    if chosen.outputs is not None:
        files.keep(chosen.outputs, "--outputs", chosen.program, chosen.inputs)
    rows, lines, broken = [], [], False
    for program in found:
        feeds = given if given is not None else listing.seeded(program, chosen.seed)
        outputs, counters = compiler.simulate(program.to_bytes(), feeds)
        if chosen.outputs is not None:
            files.write_arrays(chosen.outputs, outputs, "--outputs")
        rows.append(listing.execution(counters, program.resources, outputs))
        lines += [*listing.counters(counters), *listing.kept(counters, program.resources)]
        broken |= not counters.within(program.resources)
    _print(chosen, rows[0] if len(rows) == 1 else rows, lines)
    if broken:
        raise ModelError("the execution does not count what the program promised; this is a defect of the compiler")


if __name__ == "__main__":
    sys.exit(main())
