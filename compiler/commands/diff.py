"""The command that says what a change of a model does to its cost."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import compiler
from compiler import targets
from compiler.bundle import read_programs
from compiler.commands import examples, files, options, programs
from compiler.commands.changes import FORMATS, rendered
from compiler.commands.guard import WrongOption
from compiler.commands.words import spoken
from compiler.difference import Budget, Figure, difference, read_budget
from compiler.errors import ModelError
from compiler.program import Program
from compiler.targets import Target

SAME, OVER, UNUSABLE = 0, 1, 2
ABOUT = (
    "What a change does to cycles, operations, memory, IO and energy, by operation. Prints nothing when nothing changed. "
    "Exit status 1 when the new model is over budget, 2 when the two cannot be compared."
)

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
    command.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")


def run(chosen: argparse.Namespace, prices: Prices | None = None) -> int:
    """0: within budget, or none is given; 1: over budget. ``ModelError`` for what cannot be compared."""
    budget = None if chosen.budget is None else _budget(chosen.budget)
    machine = options.processor(chosen.target)  # read here, it is found for a program that was compiled for it
    given = [_given(path) for path in (chosen.old, chosen.new)]
    target = None
    if None not in given:
        programs.refuse_typed(chosen.old, chosen)
        target = options.described(chosen)
    examples.check(chosen, [chosen.precision])
    old, new = (
        _compiled(path, chosen, machine) if data is None else _read(path, data, target)
        for path, data in zip((chosen.old, chosen.new), given, strict=True)
    )
    if target is not None and machine.digest not in (old.binary.target_digest, new.binary.target_digest):
        programs.known([old], target)  # which says that it is of neither
    found = difference(old, new, prices(old, new) if prices else (), budget)
    if found.changed or found.over:
        sys.stdout.write(rendered(found, chosen.format))
    return OVER if found.over else SAME


def _budget(path: str) -> Budget:
    text = files.read_text(path, "--budget", "a TOML file that says what the new model may cost at most")
    try:
        return read_budget(text)
    except ModelError as error:
        raise ModelError(f"--budget {path}: {error}") from error


def _given(path: str) -> bytes | None:
    """The bytes of a compiled program, None for what is to be compiled."""
    try:
        with Path(path).open("rb") as file:
            start = file.read(8)
            return start + file.read() if programs.is_program(start) else None
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


def _compiled(path: str, chosen: argparse.Namespace, machine: Target) -> Program:
    dims, states, bounds = options.sizes(chosen.dim), options.states(chosen.state), options.bounds(chosen.bound)
    try:
        graph = compiler.load(Path(path), dims, states=states, bounds=bounds)
        feeds: Any = examples.calibration(graph, chosen)
        return compiler.compile(graph, machine, chosen.precision, feeds, objective=chosen.objective)
    except ModelError as error:
        raise ModelError(f"{path}: {error.told(spoken)}") from error
