"""Read, check and split labelled data sets.

One part of the items is for choosing thresholds and models. The other part proves the promised accuracy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from apps.registry.feeds import InputError, Limits, TensorType, arrays_pack, arrays_read
from apps.registry.feeds.check import Array

LABELS = "labels"
ITEMS_MAX = 40_000
LABEL_DIGITS = 12  # from this length on, digits are not a class number
LARGEST_LABEL = 2**31 - 2
ZIP_MAGIC = b"PK"


@dataclass(frozen=True)
class Labelled:
    """A labelled data set. `inputs` maps each name to an array [items, *shape]. `labels` are integers of shape [items]
    or [items, positions]; None if the items have no labels.
    """

    inputs: dict[str, Array]
    labels: Array | None

    @property
    def items(self) -> int:
        return len(next(iter(self.inputs.values())))

    def to_bytes(self) -> bytes:
        """Return the data set as .npz bytes; equal data sets give equal bytes."""
        return arrays_pack(self.inputs if self.labels is None else {**self.inputs, LABELS: self.labels})


class Split(NamedTuple):
    """The item indices of the two parts, each in ascending order."""

    choose: Array
    promise: Array


def labelled_read(file: BinaryIO, limits: Limits) -> Labelled:
    """Read a data set from a .npz file with one array per input and the array `labels`. Raises InputError with every
    fault.
    """
    head = file.read(len(ZIP_MAGIC))
    file.seek(0)
    if head and head != ZIP_MAGIC:
        raise InputError(
            ["This is not a .npz file: save the data with numpy.savez(path, input_name=array, labels=class_numbers)."]
        )
    return labelled_check(arrays_read(file, (), limits))


def labelled_check(arrays: Mapping[str, Array]) -> Labelled:
    """Check that the arrays form a data set, and return the data set. Raises InputError with every fault."""
    inputs = {name: array for name, array in sorted(arrays.items()) if name != LABELS}
    if not inputs:
        raise InputError(
            ["The file holds no inputs: add an array for each input of the model, under the input's name."]
        )
    scalars = [
        f"Array '{name}' is a single number; it must be an array with the items along its first axis."
        for name in arrays
        if not arrays[name].ndim
    ]
    if scalars:
        raise InputError(scalars)
    problems = _count_problems(arrays)
    for name, array in inputs.items():
        problems += _value_problems(f"Input '{name}'", array)
    labels, wrong = _labels(arrays.get(LABELS))
    if problems or wrong:
        raise InputError([*problems, *wrong])
    return Labelled(inputs, labels)


def digest_of(data: bytes) -> str:
    """Return the SHA-256 digest of a data set's bytes in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def split_digest(digest: str, seed: int, choose: int) -> str:
    """Return the digest that identifies a data set together with its split."""
    return hashlib.sha256(f"takt-split/1 {digest} {seed} {choose}".encode()).hexdigest()


def split(items: int, *, seed: int, choose: int) -> Split:
    """Split the items into a part for choosing, with `choose` items, and a part that proves the accuracy.

    The items are ordered by the SHA-256 digest of seed and item number. Raises ValueError if a part would be empty.
    """
    if not 0 < choose < items:
        raise ValueError(f"{choose} of {items} items leave a part without any.")
    order = sorted(range(items), key=lambda index: hashlib.sha256(f"{seed}:{index}".encode()).digest())
    return Split(np.sort(np.array(order[:choose])), np.sort(np.array(order[choose:])))


def _count_problems(arrays: Mapping[str, Array]) -> list[str]:
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"'{name}' has {count:,}" for name, count in counts.items())
        return [f"Every array needs the same number of items along its first axis, but {listed}."]
    items = next(iter(counts.values()))
    if items < 2:
        counted = "1 item" if items == 1 else f"{items} items"
        return [f"The data set has {counted}; it needs at least 2: one for tuning and one for testing."]
    if items > ITEMS_MAX:
        return [f"The data set has {items:,} items; at most {ITEMS_MAX:,} are accepted. Send a random sample."]
    return []


def _value_problems(what: str, array: Array) -> list[str]:
    if array.dtype.kind not in "biuf":
        return [f"{what} holds {array.dtype}; send numbers."]
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return []
    item = int(np.argwhere(~np.isfinite(array))[0][0])
    return [f"{what} holds a value that is not a finite number (item {item}); mend or remove the item."]


def labels_read(file: BinaryIO, limits: Limits, *, items: int) -> Array:
    """Return labels as integers of shape [items] or [items, positions]. Raises InputError if the labels are invalid.

    The file is a .npz file with the array `labels`, a .npy file, or text with one line per item.
    """
    head = file.read(len(ZIP_MAGIC))
    file.seek(0)
    given = _labels_array(file, limits, is_npz=head == ZIP_MAGIC, is_npy=head == b"\x93N")
    labels, wrong = _labels(given, is_one_class=True)
    if labels is None:
        raise InputError(wrong)
    if len(labels) != items:
        raise InputError(
            [f"The file has {len(labels):,} labels, but the job has {items:,} items; send one label for each item."]
        )
    return labels


def _labels_array(file: BinaryIO, limits: Limits, *, is_npz: bool, is_npy: bool) -> Array:
    if is_npz or is_npy:
        arrays = arrays_read(file, (TensorType(LABELS, "int64", ()),), limits)
        if LABELS not in arrays:
            held = ", ".join(f"'{name}'" for name in arrays) or "none"
            raise InputError([f"The file has no array '{LABELS}'; it has {held}."])
        if not arrays[LABELS].ndim:
            raise InputError([f"'{LABELS}' is a single number; send one label for each item."])
        return arrays[LABELS]
    return _labels_text(file.read(limits.file_bytes + 1))


def _labels_text(data: bytes) -> Array:
    rows = [_label_row(number, line) for number, line in enumerate(_label_lines(data))]
    if not rows or len({len(row) for row in rows}) > 1:
        raise InputError(["The file needs one line for each item, with the same number of labels in each line."])
    array: np.ndarray[Any, np.dtype[Any]] = np.array(rows, np.int64)
    return array


def _label_lines(data: bytes) -> list[str]:
    try:
        lines = [line.strip() for line in data.decode("utf-8-sig").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        said = (
            "This is neither a .npz file nor a text file. Send labels as .npz, or as CSV with one line for each item."
        )
        raise InputError([said]) from error
    has_header = bool(lines) and not any(character.isdigit() for character in lines[0])
    return lines[1:] if has_header else lines


def _label_row(number: int, line: str) -> list[int]:
    cells = [cell.strip() for cell in line.split(",")]
    if not all(cell.isascii() and cell.isdigit() and len(cell) < LABEL_DIGITS for cell in cells):
        raise InputError(
            [f"Item {number} has the label {line[:40]!r}; a label must be a class number: 0, 1, 2 and so on."]
        )
    return [int(cell) for cell in cells]


def _labels(given: Array | None, *, is_one_class: bool = False) -> tuple[Array | None, list[str]]:
    if given is None:
        return None, []
    labels: np.ndarray[Any, np.dtype[Any]] = given
    wrong = _wrong_label(labels)
    if wrong:
        return None, [wrong]
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim > 2:
        return None, [
            f"'{LABELS}' has shape {list(labels.shape)}; send one label for each item, or one for each position."
        ]
    if not labels.size:
        return None, [f"'{LABELS}' has shape {list(labels.shape)} and so holds no label; send one label for each item."]
    if labels.min() == labels.max() and not is_one_class:
        return None, [
            f"Every item has the label {int(labels.flat[0])}; data with only one class prove nothing. Add the others."
        ]
    return np.ascontiguousarray(labels, dtype=np.int64), []


def _wrong_label(labels: np.ndarray[Any, np.dtype[Any]]) -> str:
    if labels.dtype.kind not in "biuf":
        return f"'{LABELS}' holds {labels.dtype}; send class numbers, from 0."
    is_float = labels.dtype.kind == "f"
    if is_float and np.isnan(labels).any():
        item = int(np.argwhere(np.isnan(labels))[0][0])
        return f"'{LABELS}' has no label at item {item} (NaN); label it, or remove the item."
    off = (labels < 0) | (labels > LARGEST_LABEL) | (labels != np.floor(labels) if is_float else False)
    if off.any():
        item = int(np.argwhere(off)[0][0])
        wanted = f"a label must be a class number, which is a whole number from 0 to {LARGEST_LABEL:,}."
        return f"'{LABELS}' at item {item} is {labels[off][0]}; {wanted}"
    return ""
