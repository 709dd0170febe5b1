"""Check that arrays fit the inputs of a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from apps.figures import shape_format

Array = np.ndarray[Any, np.dtype[Any]]
ITEMS_MAX = 1_000_000
BYTES_MAX = 64 * 1024 * 1024  # of a job's arrays, as they are sent and in the program's own types
_CHUNK = 1 << 20  # elements that are converted at once


class InputError(Exception):
    """Raised if the inputs cannot be used; `problems` holds one sentence per fault."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__(" ".join(self.problems))


@dataclass(frozen=True)
class TensorType:
    """An input or output of a program: its name, NumPy dtype name and shape per execution."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"'{self.name}' ({self.dtype}, {shape_format(self.shape)})"


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return whether a type holds floats. NumPy's own kinds leave out bfloat16 and float8."""
    return "float" in dtype.name


def widened(array: Array) -> Array:
    """Return an array of a small type (bfloat16, float8, 4 bits) in a type that .npz files can hold, with the same values; any
    other array as it is.
    """
    if array.dtype.isbuiltin != 2:  # 2 marks types that another package brings to NumPy
        return array
    return array.astype(np.float32 if is_float(array.dtype) else np.int8)


def items_check(arrays: Mapping[str, Array], types: Sequence[TensorType]) -> dict[str, Array]:
    """Check the arrays, and return them with the shape [items, *shape] and the program's element types.

    An array may omit a leading dimension of 1. Raises InputError with every fault.
    """
    problems = _names_problems(arrays, types)
    sizes = _size_problems(arrays, types)  # before anything is converted
    if sizes:
        raise InputError(problems + sizes)
    checked: dict[str, Array] = {}
    for wanted in types:
        if wanted.name not in arrays:
            continue
        try:
            checked[wanted.name] = _typed(_shaped(arrays[wanted.name], wanted), wanted)
        except InputError as error:
            problems += error.problems
    counts = {name: len(array) for name, array in checked.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"'{name}' has {count}" for name, count in counts.items())
        problems.append(f"Every input needs the same number of items, but {listed}.")
    problems += [f"Input '{name}' holds no items; send at least one." for name, count in counts.items() if not count]
    if max(counts.values(), default=0) > ITEMS_MAX:
        problems.append(f"A job can have at most {ITEMS_MAX:,} items; split yours into several jobs.")
    if problems:
        raise InputError(problems)
    return checked


def items_count_check(items: int) -> None:
    """Raise InputError if a job cannot have this many items."""
    if items > ITEMS_MAX:
        raise InputError([f"A job can have at most {ITEMS_MAX:,} items; split yours into several jobs."])


def items_match(arrays: Mapping[str, Array], types: Sequence[TensorType]) -> bool:
    """Return whether the shapes of the arrays match the types."""
    if any(wanted.name not in arrays for wanted in types):
        return False
    try:
        for wanted in types:
            _shaped(arrays[wanted.name], wanted)
    except InputError:
        return False
    return True


def _names_problems(arrays: Mapping[str, Array], types: Sequence[TensorType]) -> list[str]:
    known = {wanted.name for wanted in types}
    problems = [f"Input {wanted} is missing." for wanted in types if wanted.name not in arrays]
    listed = ", ".join(f"'{wanted.name}'" for wanted in types)
    return problems + [
        f"There is no input '{name}'; the program's inputs are {listed}." for name in arrays if name not in known
    ]


def _size_problems(arrays: Mapping[str, Array], types: Sequence[TensorType]) -> list[str]:
    sizes = {one.name: np.dtype(one.dtype).itemsize for one in types}
    taken = sum(array.size * max(array.dtype.itemsize, sizes.get(name, 0)) for name, array in arrays.items())
    if taken <= BYTES_MAX:
        return []
    return [f"The inputs are {taken:,} bytes; at most {BYTES_MAX:,} are allowed in one job. Send several jobs."]


def _shaped(array: Array, wanted: TensorType) -> Array:
    if array.ndim == len(wanted.shape) + 1 and array.shape[1:] == wanted.shape:
        return array
    if wanted.shape[:1] == (1,) and array.ndim == len(wanted.shape) and array.shape[1:] == wanted.shape[1:]:
        return array[:, np.newaxis]
    sizes = ", ".join(str(size) for size in wanted.shape)
    needed = f"[items, {sizes}]" if sizes else "[items]"
    raise InputError([f"Input {wanted} needs the shape {needed}; yours is {list(array.shape)}."])


def _typed(array: Array, wanted: TensorType) -> Array:
    dtype = np.dtype(wanted.dtype)
    if array.dtype == dtype:
        return np.ascontiguousarray(array)
    if array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and not is_float(dtype)):
        raise InputError([f"Input {wanted} needs numbers of type {dtype.name}; yours are {array.dtype.name}."])
    source, converted = array.reshape(-1), np.empty(array.shape, dtype)
    target = converted.reshape(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        for at in range(0, len(source), _CHUNK):
            part = source[at : at + _CHUNK]
            target[at : at + _CHUNK] = part.astype(dtype)
            lost = _lost(part, target[at : at + _CHUNK])
            if np.any(lost):
                raise InputError(
                    [f"Input {wanted} holds values that {dtype.name} cannot represent; the first is {part[lost][0]}."]
                )
    return converted


def _lost(array: Array, converted: Array) -> Array:
    lost: Array
    if array.dtype.kind == "f":
        lost = np.isfinite(array) & ~np.isfinite(converted)
    elif is_float(converted.dtype):
        magnitude = np.abs(array.astype(np.float64))
        is_exact_range = magnitude <= 2.0 ** (ml_dtypes.finfo(converted.dtype).nmant + 1)
        lost = ~is_exact_range & ((magnitude >= 2.0**63) | (converted.astype(array.dtype) != array))
    else:
        lost = (converted.astype(array.dtype) != array) | ((array < 0) != (converted < 0))
    return lost


def seeded_items(types: Sequence[TensorType], items: Sequence[int] | Array, *, seed: int) -> dict[str, Array]:
    """Generate small random inputs of the given types. Each item depends only on the seed and the item's number."""
    arrays = {one.name: np.empty((len(items), *one.shape), one.dtype) for one in types}
    for row, item in enumerate(items):
        random = np.random.default_rng([seed, int(item)])
        for one in types:
            is_real = is_float(np.dtype(one.dtype))
            arrays[one.name][row] = random.random(one.shape) if is_real else random.integers(0, 2, one.shape)
    return arrays
