"""The command that says what a change of a model does to its cost."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from compiler import targets
from compiler.bundle import read_programs
from compiler.commands import examples, files, options, programs
from compiler.commands.changes import FORMATS, rendered
from compiler.commands.guard import WrongOption
from compiler.commands.words import spoken
from compiler.difference import Budget, Figure, difference, read_budget
from compiler.errors import ModelError
from compiler.program import Program

SAME, OVER, UNUSABLE = 0, 1, 2
ABOUT = (
    "What a change does to cycles, operations, memory, IO and energy, by operation. Prints nothing when nothing changed. "
    "Exit status 1 when the new model is over budget, 2 when the two cannot be compared."
)

BOOK = "download one under Prices and give it to takt diff with --book, or to takt review as book = in takt.toml"
Prices = Callable[[Program, Program], Sequence[Figure]]


def add_options(command: argparse.ArgumentParser) -> None:
    """What the diff of both programs' command lines takes."""
    command.add_argument("old", help="the model before: ONNX, text form or a compiled program")
    command.add_argument("new", help="the model after")
    options.add_place(command)
    options.add_sizes(command)
    options.add_course(command)
    examples.add_options(command, ranges=False)
    command.add_argument("--format", choices=FORMATS, default="text", help="default: text")
    command.add_argument("--budget", metavar="TOML", help="a file that says what the new model may cost at most")
    for form in FORMATS[1:]:
        command.add_argument(
            f"--{form}", action="store_const", const=form, dest="format", help=f"the same as --format {form}"
        )


def run(chosen: argparse.Namespace, prices: Prices | None = None) -> int:
    """0: within budget, or none is given; 1: over budget. ``ModelError`` for what cannot be compared."""
    budget = None if chosen.budget is None else budget_of(chosen.budget, priced=prices is not None)
    machine = options.processor(chosen.target)  # read here, it is found for a program that was compiled for it
    given = [_given(path) for path in (chosen.old, chosen.new)]
    target = None
    if all(map(programs.is_program, given)):
        programs.refuse_typed(chosen.old, chosen)
        target = options.described(chosen)
    examples.check(chosen, [chosen.precision])
    old, new = (
        _read(path, data, target) if programs.is_program(data) else _compiled(path, files.source(path, data), chosen)
        for path, data in zip((chosen.old, chosen.new), given, strict=True)
    )
    if target is not None and machine.digest not in (old.binary.target_digest, new.binary.target_digest):
        programs.known([old], target)  # which says that it is of neither
    found = difference(old, new, prices(old, new) if prices else (), budget)
    if found.changed or found.over:
        sys.stdout.write(rendered(found, chosen.format))
    return OVER if found.over else SAME


def budget_of(path: str, *, priced: bool) -> Budget:
    """The budget in a file. ``ModelError`` when it limits a price and there is no price book (``priced``)."""
    text = files.read_text(path, "--budget", "a TOML file that says what the new model may cost at most")
    try:
        found = read_budget(text)
        if found.prices and not priced:
            raise ModelError(f"it limits {found.prices[0]}, which needs a price book; {BOOK}, or leave the limit out")
    except ModelError as error:
        raise ModelError(f"--budget {path}: {error}") from error
    return found


def _given(path: str) -> bytes:
    """The bytes of a compiled program or of standard input; of what else is to be compiled only how they begin."""
    if path == files.PIPE:
        return files.read(path, "", "a model or a compiled program")
    try:
        with Path(path).open("rb") as file:
            start = file.read(8)
            return start + file.read() if programs.is_program(start) else start
    except (OSError, ValueError) as error:
        raise ModelError(files.unreadable(path, error, "", "a model or a compiled program")) from None


def _read(path: str, data: bytes, target: str | None) -> Program:
    try:
        found, *others = programs.of(read_programs(data))
        programs.known([found], None if targets.ships(found.binary.target_digest) else target)
    except WrongOption:
        raise
    except ModelError as error:
        raise ModelError(f"{path}: {error.told(spoken)}") from error
    if others:
        raise ModelError(f"{path} holds programs of several sizes; compare one size at a time")
    return found


def _compiled(path: str, source: Any, chosen: argparse.Namespace) -> Program:
    options.sizes(chosen.dim)  # of one size
    try:
        (found,) = programs.of(options.compiled(source, chosen))
        return found
    except WrongOption:
        raise
    except ModelError as error:
        raise ModelError(f"{path}: {error.told(spoken)}") from error
