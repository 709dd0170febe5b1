"""What every command that compiles a model takes: processor, precision, open dimensions, states and bounds."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

import numpy as np

import compiler
from compiler import targets
from compiler.bundle import Buckets, Bundle
from compiler.commands import examples, files
from compiler.commands.guard import WrongOption
from compiler.commands.progress import shown
from compiler.commands.words import spoken
from compiler.driver import Stage, quiet
from compiler.errors import ModelError
from compiler.ir import Graph
from compiler.precision import PRECISIONS
from compiler.precision.artefact import OtherRanges
from compiler.program import Program
from compiler.scheduling.initiation_interval import OBJECTIVES
from compiler.targets import Target

DESCRIBED = "the name or file of the processor for which the program was compiled, where it is not found by itself"


class Default(str):
    """The value of an option that was not typed: told from the same value when it was."""

    __slots__ = ()


def add_place(command: argparse.ArgumentParser) -> None:
    """``--target``, ``--precision`` and ``--objective``."""
    command.add_argument("--target", default=Default("lpu"), help="a processor's name or file (default: lpu)")
    command.add_argument("--precision", choices=PRECISIONS, default=Default("float32"), help="default: float32")
    command.add_argument(
        "--objective", choices=OBJECTIVES, default=Default("balanced"), help="what is to be short (default: balanced)"
    )


def add_sizes(command: argparse.ArgumentParser, *, buckets: bool = False) -> None:
    """``--dim``, with ``buckets`` of several sizes too."""
    command.add_argument(
        "--dim",
        action="append",
        default=[],
        metavar="NAME=SIZE[,SIZE...]" if buckets else "NAME=SIZE",
        help="size, or several sizes, of a variable dimension; may be repeated"
        if buckets
        else "size of a variable dimension; may be repeated",
    )


def add_course(command: argparse.ArgumentParser) -> None:
    """``--state``, ``--bound``, ``--constant`` and ``--progress``."""
    for option, form, text in (
        ("--state", "INPUT=OUTPUT", "an input that stays and becomes the output"),
        ("--bound", "LOOP=TRIPS", "most trips of a loop that the data ends"),
        ("--constant", "INPUT=VALUE", "an input with one value, such as sr=16000, [1,2] or an .npy file"),
        ("--cache", "INPUT=OUTPUT", "with --context, a cache and the output that continues it (default: all)"),
    ):
        command.add_argument(option, action="append", default=[], metavar=form, help=f"{text}; may be repeated")
    command.add_argument(
        "--context", type=at_least(2), metavar="ROWS", help="rows that caches which grow by concatenation have at most"
    )
    add_progress(command)


def add_progress(command: argparse.ArgumentParser) -> None:
    """``--progress``."""
    command.add_argument(
        "--progress", action="store_true", default=None, help="say on standard error what runs (default: on a terminal)"
    )


def typed(options: argparse.Namespace) -> list[str]:
    """Those of the options above that the command line names."""
    single = [name for name in ("target", "precision", "objective") if not isinstance(getattr(options, name), Default)]
    several = [n for n in ("dim", "state", "bound", "constant", "cache", "context") if getattr(options, n)]
    return [*(f"--{name}" for name in (*single, *several)), *examples.typed(options)]


def described(options: argparse.Namespace) -> str | None:
    """The processor that the command line names, None where it names none."""
    return None if isinstance(options.target, Default) else options.target


def processor(target: str) -> Target:
    """The processor that an option names. ``WrongOption`` for an unknown name and for a file that describes none."""
    try:
        return targets.resolve(target)
    except ModelError as error:
        raise WrongOption(f"--target: {error.told(spoken)}") from error


def at_least(least: int) -> Callable[[str], int]:
    """Reads an option's value as a whole number of at least ``least``."""

    def read(text: str) -> int:
        try:
            return _count(text, f"it takes a whole number of at least {least}, not {text!r}", least)
        except WrongOption as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def sizes(pairs: Sequence[str]) -> dict[str, int]:
    """Sizes by dimension. ``WrongOption`` for what is no NAME=SIZE, and for a dimension that is given twice."""
    found = {}
    for name, values in _named("--dim", "NAME=SIZE, such as batch=1", pairs):
        found[name] = _count(values, f"--dim takes NAME=SIZE, such as batch=1, not {name + '=' + values!r}")
    return found


def buckets(pairs: Sequence[str]) -> dict[str, int | list[int]]:
    """As ``sizes``, with lists where several sizes of a dimension are given."""
    found: dict[str, int | list[int]] = {}
    for name, values in _named("--dim", "NAME=SIZE or NAME=SIZE,SIZE", pairs):
        wrong = f"--dim takes NAME=SIZE or NAME=SIZE,SIZE with sizes of at least 1, not {name + '=' + values!r}"
        numbers = [_count(value, wrong) for value in values.split(",")]
        found[name] = numbers if len(numbers) > 1 else numbers[0]
    return found


def bounds(pairs: Sequence[str]) -> dict[str, int]:
    """Most trips by loop."""
    named = _named("--bound", "LOOP=TRIPS", pairs)
    return {name: _count(trips, f"--bound takes LOOP=TRIPS, not {name + '=' + trips!r}", 0) for name, trips in named}


def states(pairs: Sequence[str], option: str = "--state") -> list[tuple[str, str]]:
    """(input, output) pairs."""
    found = [(name, update) for name, _, update in (pair.partition("=") for pair in pairs)]
    for pair, (name, update) in zip(pairs, found, strict=True):
        if not name or not update:
            raise WrongOption(f"{option} takes INPUT=OUTPUT, not {pair!r}")
    return found


def constants(pairs: Sequence[str]) -> dict[str, Any]:
    """Arrays by input: what JSON or an .npy file says."""
    found: dict[str, Any] = {}
    for name, value in _named("--constant", "INPUT=VALUE, such as sr=16000", pairs):
        if value.endswith(".npy"):
            found[name] = files.read_array(value, "--constant")
            continue
        try:
            found[name] = np.asarray(json.loads({"True": "true", "False": "false"}.get(value, value)))
        except (ValueError, RecursionError):
            raise WrongOption(
                f"--constant takes INPUT=VALUE with a number, true, false, a list or an .npy file, not {name + '=' + value!r}"
            ) from None
    return found


def loaded(model: str | PathLike[str] | bytes, options: argparse.Namespace, on_stage: Stage = quiet) -> Graph | Buckets:
    """The graph of a model, or of each size that the options name."""
    source: Any = model
    return compiler.load(
        source,
        buckets(options.dim),
        constants(options.constant),
        states=states(options.state),
        bounds=bounds(options.bound),
        context=options.context,
        caches=states(options.cache, "--cache"),
        on_stage=on_stage,
    )


def compiled(model: str | PathLike[str] | bytes, options: argparse.Namespace) -> Program | Bundle:
    """The program, or by several sizes the bundle, of a model with all the options above."""
    machine = processor(options.target)
    with shown(options.progress) as on_stage:
        graph = loaded(model, options, on_stage)
        on_stage("calibrate")
        feeds: Any = examples.calibration(graph, options)
        try:
            return compiler.compile(
                graph, machine, options.precision, feeds, objective=options.objective, on_stage=on_stage
            )
        except OtherRanges as error:
            raise ModelError(f"--ranges {options.ranges}: {error}") from error


def _named(option: str, form: str, pairs: Sequence[str]) -> list[tuple[str, str]]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, _, value = pair.rpartition("=")
        if not name or not value:
            raise WrongOption(f"{option} takes {form}, not {pair!r}")
        if name in found:
            raise WrongOption(f"{option} is given twice for {name!r}")
        found[name] = value
    return list(found.items())


def _count(text: str, wrong: str, least: int = 1) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 18 or int(text) < least:
        raise WrongOption(wrong)
    return int(text)
