"""Typical inputs, or ranges that were kept, from which float16 and int8 take the range of every value."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import compiler
from compiler import Calibration
from compiler.bundle import Buckets
from compiler.commands import files
from compiler.commands.guard import WrongOption
from compiler.errors import ModelError
from compiler.ir import DType, Graph, TensorType
from compiler.isa import NAME

Array = np.ndarray[Any, Any]
Feeds = list[dict[str, Array]]
EXAMPLES = "an .npz file with one array for each input, one item or several along a leading axis"
RANGES = "a file that --write-ranges wrote"


def add_options(command: argparse.ArgumentParser, *, writes: bool = False, ranges: bool = True) -> None:
    """``--examples``, and (where one model of one size may be meant) ``--ranges`` and ``--write-ranges``."""
    command.set_defaults(ranges=None, write_ranges=None)
    command.add_argument(
        "--examples",
        action="append",
        default=[],
        metavar="NPZ",
        help="typical inputs for float16 and int8, one item or several along a leading axis; may be repeated "
        "(default: made-up ones)",
    )
    if ranges:
        command.add_argument("--ranges", metavar="JSON", help="ranges that --write-ranges wrote, in place of examples")
    if writes:
        command.add_argument(
            "--write-ranges", metavar="JSON", help="keep the ranges: with them it compiles to the same bytes"
        )


def typed(options: argparse.Namespace) -> list[str]:
    """Those of the options above that the command line names."""
    names = ("examples", "ranges", "write_ranges")
    return [f"--{name.replace('_', '-')}" for name in names if getattr(options, name, None)]


def check(options: argparse.Namespace, precisions: Sequence[str]) -> None:
    """``WrongOption`` for examples where nothing takes ranges, and for both examples and ranges."""
    given = typed(options)
    if given and set(precisions) == {"float32"}:
        raise WrongOption(f"float32 takes no ranges: leave {' and '.join(given)} away, or give --precision int8")
    if options.examples and options.ranges is not None:
        raise WrongOption("ranges were taken from examples already: give --examples or --ranges")


def calibration(graph: Graph | Buckets, options: argparse.Namespace) -> Calibration | Feeds | None:
    """What the options say to calibrate with; None for made-up inputs. Writes the ranges where that is asked for."""
    check(options, [options.precision])
    if isinstance(graph, Buckets):
        if one := [name for name in typed(options) if name != "--examples"]:
            raise WrongOption(f"{' and '.join(one)}: ranges belong to one size; compile one size at a time")
        return feeds(graph, options.examples)
    if options.ranges is not None:
        found = _read_ranges(options.ranges, options.precision)
    elif options.write_ranges is None:
        return feeds(graph, options.examples)
    else:
        found = compiler.calibrate(graph, feeds(graph, options.examples), options.precision)
    if options.write_ranges is not None:
        files.write(options.write_ranges, found.to_json().encode(), "--write-ranges")
    return found


def _read_ranges(path: str, precision: str) -> Calibration:
    """Kept ranges. Of files that do not say of which model they are, the errors are left out: they may be another's."""
    text = files.read_text(path, "--ranges", RANGES)
    try:
        found = Calibration.from_json(text)
        found.require(precision)
    except ModelError as error:
        raise ModelError(f"--ranges {path}: {error}") from error
    return found if found.graph else replace(found, errors={})


def feeds(graph: Graph | Buckets, paths: Sequence[str]) -> Feeds | None:
    """All items of the files; None without one. Of several sizes a file may be of any one. ``ModelError`` says what is wrong
    in which file."""
    graphs = graph.graphs if isinstance(graph, Buckets) else (graph,)
    found: Feeds = []
    for path in paths:
        arrays = files.read_arrays(path, "--examples", EXAMPLES)
        try:
            found += _of_any(graphs, arrays)
        except ModelError as error:
            raise ModelError(f"--examples {path}: {error}") from error
    return found if paths else None


def _of_any(graphs: Sequence[Graph], arrays: dict[str, Array]) -> Feeds:
    for graph in graphs[:-1]:
        try:
            return items(graph, arrays)
        except ModelError:
            continue
    return items(graphs[-1], arrays)


def items(graph: Graph, arrays: dict[str, Array]) -> Feeds:
    """One feed for each item of ``arrays``: of an input's own shape (one item), or with the items along a leading axis, in
    front of the shape or, where that begins with 1, in its place."""
    _check_names(graph, arrays)
    stacked = {name: _stacked(name, arrays[name], graph.types[name]) for name in graph.inputs}
    counts = {name: len(array) for name, array in stacked.items()}
    if not counts or min(counts.values()) == 0:
        raise ModelError("there is no item in it")
    if len(set(counts.values())) > 1:
        raise ModelError(
            f"every array needs as many items: there are {', '.join(f'{c} of {n!r}' for n, c in counts.items())}"
        )
    return [{name: array[n] for name, array in stacked.items()} for n in range(next(iter(counts.values())))]


def _check_names(graph: Graph, arrays: dict[str, Array]) -> None:
    """``ModelError`` unless there is one array for each input of the model and no other."""
    taken = ", ".join(f"{name} {graph.types[name]}" for name in graph.inputs) or "nothing"
    for name in graph.inputs:
        if name not in arrays:
            raise ModelError(f"there is no array {name!r}; the model takes {taken}")
    if unknown := [name for name in arrays if name not in graph.inputs]:
        raise ModelError(f"the model has no input {unknown[0]!r}; it takes {taken}")


def _stacked(name: str, array: Array, kind: TensorType) -> Array:
    """The array as [items, *shape] in the input's type; ``ModelError`` for another shape."""
    shape = kind.shape
    if array.shape == shape:
        array = array[None]
    elif shape[:1] == (1,) and array.ndim == len(shape) and array.shape[1:] == shape[1:]:
        array = array[:, None]
    elif array.shape[1:] != shape or array.ndim != len(shape) + 1:
        raise ModelError(
            f"{name!r} has the shape {list(array.shape)}; one item has {list(shape)}, and several [items, ...]"
        )
    return _converted(name, array, kind.dtype)


def _converted(name: str, array: Array, dtype: DType) -> Array:
    """The items in the input's type, where that loses nothing but the rounding of floats; ``ModelError`` where it does."""
    wanted = dtype.numpy
    given = NAME.get(array.dtype.newbyteorder("="))
    if given is None or (DType(given).is_float and not dtype.is_float):
        raise ModelError(f"{name!r} is of type {array.dtype}; the model takes {wanted}")
    with np.errstate(over="ignore", invalid="ignore"):
        made = np.ascontiguousarray(array.astype(wanted))
    if (np.isinf(made) & np.isfinite(array)).any() if dtype.is_float else not np.array_equal(made, array):
        raise ModelError(f"{name!r} holds numbers that {wanted} cannot hold")
    wrong = np.flatnonzero(np.isnan(made).any(axis=tuple(range(1, made.ndim))))
    if wrong.size:
        raise ModelError(f"item {wrong[0]} of {name!r} holds what is not a number")
    return made
