"""The command that says what a change of a model does to its cost."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import compiler
from compiler.bundle import Bundle, read_programs
from compiler.commands.changes import FORMATS, rendered
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
    command.add_argument("--target", default="lpu", help="a processor's name or file (default: lpu)")
    command.add_argument("--precision", default="float32")
    command.add_argument("--dim", action="append", default=[], metavar="NAME=SIZE", help="size of an open dimension")
    command.add_argument("--format", choices=FORMATS, default="text")
    command.add_argument("--budget", metavar="TOML", help="a file that says what the new model may cost at most")
    command.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")


def run(options: argparse.Namespace, prices: Prices | None = None) -> int:
    """0: within budget, or none is given; 1: over budget. ``ModelError`` for what cannot be compared."""
    budget = read_budget(_budget(Path(options.budget))) if options.budget else None
    dims = _dims(options.dim)
    old, new = (_program(path, options, dims) for path in (options.old, options.new))
    found = difference(old, new, prices(old, new) if prices else (), budget)
    if found.changed or found.over:
        sys.stdout.write(rendered(found, options.format))
    return OVER if found.over else SAME


def run_alone(options: argparse.Namespace) -> int:
    """``run``, with bad input as one line and exit status 2."""
    try:
        return run(options)
    except ModelError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return UNUSABLE


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
        raise ModelError(f"{path}: {error}") from error
    if isinstance(found, Bundle):
        raise ModelError(f"{path} holds programs of several sizes; compare one size at a time")
    return found


def _compiled(path: str, options: argparse.Namespace, dims: dict[str, int]) -> Program:
    return compiler.compile(compiler.load(Path(path), dims), target=options.target, precision=options.precision)


def _dims(pairs: Sequence[str]) -> dict[str, int]:
    found = {}
    for pair in pairs:
        name, _, size = pair.rpartition("=")
        if not name or not (size.isascii() and size.isdigit()) or int(size) < 1:
            raise ModelError(f"--dim takes NAME=SIZE, such as batch=1, not {pair!r}")
        found[name] = int(size)
    return found
