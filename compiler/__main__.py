"""The commands on models and programs, of ``python -m compiler`` and of ``takt``.

An error is a line on standard error, with one more for each of several reasons, and exit status 1 (of diff and of targets check
2: there 1 is an answer). A command line that is wrong in itself, such as an option's value, is status 2.
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
from compiler.commands import (
    completion,
    diff,
    examples,
    files,
    listing,
    options,
    printing,
    processors,
    programs,
    report,
)
from compiler.commands.guard import Parser, WrongOption, guarded
from compiler.commands.progress import shown
from compiler.commands.tables import add_formats, numbers
from compiler.errors import ModelError

MODEL, PROGRAM = (
    "an ONNX file, a file in the text form, or - for standard input",
    "a program or bundle that compile wrote, or -",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; answers the exit status."""
    return guarded(lambda: parser().parse_args(arguments), run, prefix="error", failed=1)


def run(chosen: argparse.Namespace) -> int:
    """Run the chosen command; one that finds no room says it as data too, where data are asked for."""
    try:
        return int(chosen.run(chosen) or 0)
    except compiler.DoesNotFit as error:
        if chosen.form == "json":
            print(json.dumps(error.to_json()))
        raise


def parser() -> argparse.ArgumentParser:
    """The command line."""
    whole = Parser(prog="python -m compiler", description="Compile ONNX models to programs of known cost.")
    whole.begin()
    commands = whole.add_subparsers(metavar="command")
    add_commands(commands)
    completion.add_command(commands, parser, "python -m compiler")
    return whole


def add_commands(commands: Any) -> None:
    """Add every command that works on models and programs to the commands of a parser."""

    def add(name: str, run: Any, text: str, alias: str | None = None, *, json: bool = True) -> argparse.ArgumentParser:
        command: argparse.ArgumentParser = commands.add_parser(
            name, aliases=[alias] if alias else [], help=text, description=text[0].upper() + text[1:] + "."
        )
        if json:
            add_formats(command, "json")
        command.set_defaults(run=run)
        return command

    look = add("inspect", _inspect, "show what a model contains, and its variable dimensions")
    look.add_argument("model", help=MODEL)
    build = add("compile", _compile, "compile a model; several sizes of a dimension make a bundle")
    build.add_argument("model", help=MODEL)
    build.add_argument("-o", "--output", required=True, help="file for the program, or - for standard output")
    options.add_place(build)
    options.add_sizes(build, buckets=True)
    options.add_course(build)
    examples.add_options(build, writes=True)
    written = add("print", printing.run, printing.ABOUT)
    written.add_argument("model", help=MODEL)
    printing.add_options(written)
    show = add("report", report.run, "show the cost of a model or a program, operation by operation", json=False)
    report.add_options(show)
    text = add("disassemble", _disassemble, "list the instructions of a program")
    text.add_argument("program", help=PROGRAM)
    run = add("simulate", _simulate, "execute a program, and compare its counters with its report", "run")
    run.add_argument("program", help=PROGRAM)
    run.add_argument("--target", help=options.DESCRIBED)
    run.add_argument("--inputs", help="an .npz file with one array per input (default: seeded numbers)")
    run.add_argument("--outputs", help="file for the outputs (.npz), or -")
    run.add_argument("--seed", type=options.at_least(0), default=0, help="of the numbers that are made up (default: 0)")
    options.add_progress(run)
    both = commands.add_parser("diff", help="show what a change of a model does to its cost", description=diff.ABOUT)
    diff.add_options(both)
    both.set_defaults(run=diff.run, failed=diff.UNUSABLE)
    processors.add_compare(commands)
    listed = add(
        "targets",
        processors.run_list,
        "list the processors that programs can be compiled for; describe, check or compare them",
        "target",
    )
    processors.add_commands(listed, required=False)


def _print(chosen: argparse.Namespace, data: Any, lines: list[str], written: str | None = None) -> None:
    """Text or data; on standard error where what is ``written`` goes to standard output."""
    told = json.dumps(numbers(data), indent=2) if chosen.form == "json" else "\n".join(lines)
    print(told, file=sys.stderr if written == files.PIPE else sys.stdout)


def _inspect(chosen: argparse.Namespace) -> None:
    data = compiler.inspect(files.source(chosen.model))
    _print(chosen, data, listing.inspection(data))


def _compile(chosen: argparse.Namespace) -> None:
    _check_written(chosen)
    found = options.compiled(files.source(chosen.model), chosen)
    data = found.to_bytes()
    files.write(chosen.output, data, "--output")
    reports = [p.report() for p in programs.of(found)]
    lines = [line for r in reports for line in (*listing.headline(r["headline"]), *listing.accuracy(r["accuracy"]))]
    told = [f"wrote {len(data):,} bytes to {chosen.output}", *lines]
    _print(chosen, [r["headline"] for r in reports], told, chosen.output)


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
        with shown(chosen.progress) as on_stage:
            on_stage("simulate")
            outputs, counters = compiler.simulate(program.to_bytes(), feeds)
        if chosen.outputs is not None:
            files.write_arrays(chosen.outputs, outputs, "--outputs")
        rows.append(listing.execution(counters, program.resources, outputs))
        lines += [*listing.counters(counters), *listing.kept(counters, program.resources)]
        broken |= not counters.within(program.resources)
    _print(chosen, rows[0] if len(rows) == 1 else rows, lines, chosen.outputs)
    if broken:
        raise ModelError("the execution does not count what the program promised; this is a defect of the compiler")


if __name__ == "__main__":
    sys.exit(main())
