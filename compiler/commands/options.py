"""What every command that compiles a model takes: processor, precision, open dimensions, states and bounds."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from os import PathLike
from typing import Any

import compiler
from compiler.bundle import Bundle
from compiler.errors import ModelError
from compiler.program import Program


def add_place(command: argparse.ArgumentParser) -> None:
    """``--target``, ``--precision`` and ``--objective``."""
    command.add_argument("--target", default="lpu", help="a processor's name or file (default: lpu)")
    command.add_argument("--precision", default="float32", help="float32, float16 or int8 (default: float32)")
    command.add_argument(
        "--objective", default="balanced", help="short in latency, interval or balanced (default: balanced)"
    )


def add_sizes(command: argparse.ArgumentParser, *, buckets: bool = False) -> None:
    """``--dim``, with ``buckets`` of several sizes too."""
    command.add_argument(
        "--dim",
        action="append",
        default=[],
        metavar="NAME=SIZE[,SIZE...]" if buckets else "NAME=SIZE",
        help="size, or buckets, of an open dimension" if buckets else "size of an open dimension",
    )


def add_course(command: argparse.ArgumentParser) -> None:
    """``--state`` and ``--bound``."""
    state, bound = "an input that stays and becomes the output", "most trips of a loop that the data ends"
    command.add_argument("--state", action="append", default=[], metavar="INPUT=OUTPUT", help=state)
    command.add_argument("--bound", action="append", default=[], metavar="LOOP=TRIPS", help=bound)


def sizes(pairs: Sequence[str]) -> dict[str, int]:
    """Sizes by dimension. ``ModelError`` for what is no NAME=SIZE, and for a dimension that is given twice."""
    found = {}
    for name, values in _named("--dim", "NAME=SIZE, such as batch=1", pairs):
        found[name] = _count(values, f"--dim takes NAME=SIZE, such as batch=1, not {name + '=' + values!r}")
    return found


def buckets(pairs: Sequence[str]) -> dict[str, int | list[int]]:
    """As ``sizes``, with lists where several sizes of a dimension are given."""
    found: dict[str, int | list[int]] = {}
    for name, values in _named("--dim", "NAME=SIZE or NAME=SIZE,SIZE", pairs):
        wrong = f"--dim takes NAME=SIZE or NAME=SIZE,SIZE, not {name + '=' + values!r}"
        numbers = [_count(value, wrong) for value in values.split(",")]
        found[name] = numbers if len(numbers) > 1 else numbers[0]
    return found


def bounds(pairs: Sequence[str]) -> dict[str, int]:
    """Most trips by loop."""
    named = _named("--bound", "LOOP=TRIPS", pairs)
    return {name: _count(trips, f"--bound takes LOOP=TRIPS, not {name + '=' + trips!r}", 0) for name, trips in named}


def states(pairs: Sequence[str]) -> list[tuple[str, str]]:
    """(input, output) pairs."""
    found = [(name, update) for name, _, update in (pair.partition("=") for pair in pairs)]
    for pair, (name, update) in zip(pairs, found, strict=True):
        if not name or not update:
            raise ModelError(f"--state takes INPUT=OUTPUT, not {pair!r}")
    return found


def compiled(model: str | PathLike[str] | bytes, options: argparse.Namespace) -> Program | Bundle:
    """The program, or by several sizes the bundle, of a model with all the options above."""
    source: Any = model
    graph = compiler.load(source, dims=buckets(options.dim), states=states(options.state), bounds=bounds(options.bound))
    return compiler.compile(graph, target=options.target, precision=options.precision, objective=options.objective)


def _named(option: str, form: str, pairs: Sequence[str]) -> list[tuple[str, str]]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, _, value = pair.rpartition("=")
        if not name or not value:
            raise ModelError(f"{option} takes {form}, not {pair!r}")
        if name in found:
            raise ModelError(f"{option} is given twice for {name!r}")
        found[name] = value
    return list(found.items())


def _count(text: str, wrong: str, least: int = 1) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 18 or int(text) < least:
        raise ModelError(wrong)
    return int(text)
