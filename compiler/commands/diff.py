"""The command that says what a change of a model does to its cost."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import compiler
from compiler.bundle import Bundle, read_programs
from compiler.commands.changes import FORMATS, rendered
from compiler.commands.options import add_place, add_sizes, sizes
from compiler.commands.words import spoken
from compiler.difference import Figure, difference, read_budget
from compiler.errors import ModelError
from compiler.program import Program

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
    add_place(command)
    add_sizes(command)
    command.add_argument("--format", choices=FORMATS, default="text")
    command.add_argument("--budget", metavar="TOML", help="a file that says what the new model may cost at most")
    command.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")


def run(options: argparse.Namespace, prices: Prices | None = None) -> int:
    """0: within budget, or none is given; 1: over budget. ``ModelError`` for what cannot be compared."""
    budget = read_budget(_budget(Path(options.budget))) if options.budget else None
    dims = sizes(options.dim)
    old, new = (_program(path, options, dims) for path in (options.old, options.new))
    found = difference(old, new, prices(old, new) if prices else (), budget)
    if found.changed or found.over:
        sys.stdout.write(rendered(found, options.format))
    return OVER if found.over else SAME


def _budget(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"the budget {path} cannot be read: {error}") from None


def _program(path: str, options: argparse.Namespace, dims: dict[str, int]) -> Program:
    """The program of a file: read where it is one, else compiled."""
    try:
        with Path(path).open("rb") as file:
            start = file.read(8)
            data = start + file.read() if start in (b"TAKTBIN\n", b"TAKTBUN\n") else b""
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        found = read_programs(data) if data else _compiled(path, options, dims)
    except ModelError as error:
        raise ModelError(f"{path}: {error.told(spoken)}") from error
    if isinstance(found, Bundle):
        raise ModelError(f"{path} holds programs of several sizes; compare one size at a time")
    return found


def _compiled(path: str, options: argparse.Namespace, dims: dict[str, int]) -> Program:
    return compiler.compile(
        compiler.load(Path(path), dims),
        target=options.target,
        precision=options.precision,
        objective=options.objective,
    )
