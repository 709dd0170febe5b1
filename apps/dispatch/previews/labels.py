"""Reads the names of a model's classes from the metadata of its ONNX file.

Exporters store the names under different keys: `names` holds a Python dictionary literal, `id2label` or `labels` holds
JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import IO, Any

KEYS = ("labels", "class_names", "classes", "names", "id2label")
FIELDS_MAX = 10_000
METADATA_BYTES_MAX = 1 << 20
NAME_LENGTH_MAX = 80
_METADATA = 14  # metadata_props of ModelProto, each with a key (1) and a value (2)
_HEAD = 20  # bytes that hold the tag of a field and a number, both of the longest
_PAIR = re.compile(r"""(\d{1,6})['"]?\s*:\s*(?:'([^'\n]*)'|"([^"\n]*)")""")


def labels_of(file: IO[bytes], classes: int) -> list[str]:
    """Return one name for each class, in class order; an empty list if the file does not name exactly `classes`
    classes.
    """
    metadata = _metadata(file)
    for key in KEYS:
        found = _names(metadata.get(key, ""))
        if len(found) == classes:
            return [name[:NAME_LENGTH_MAX] for name in found]
    return []


def _names(text: str) -> list[str]:
    # Names are a JSON list or object, a Python dictionary literal, or comma-separated words.
    try:
        read: Any = json.loads(text)
    except (ValueError, RecursionError):
        pairs = {int(number): one or other for number, one, other in _PAIR.findall(text)}
        read = pairs or [word.strip() for word in text.split(",") if word.strip()]
    if isinstance(read, Mapping):
        read = _ordered(read)
    return [str(name) for name in read] if isinstance(read, list) else []


def _ordered(named: Mapping[Any, Any]) -> list[str]:
    try:
        by_number = {int(number): str(name) for number, name in named.items()}
    except (TypeError, ValueError):
        return []
    return [by_number[number] for number in sorted(by_number)] if sorted(by_number) == [*range(len(by_number))] else []


def _metadata(file: IO[bytes]) -> dict[str, str]:
    found: dict[str, str] = {}
    try:
        for data in _entries(file):
            entry = dict(_fields(data))
            found[entry.get(1, b"").decode()] = entry.get(2, b"").decode()
    except (ValueError, IndexError):
        pass
    return found


def _entries(file: IO[bytes]) -> Iterator[bytes]:
    at, size, left = 0, file.seek(0, 2), METADATA_BYTES_MAX
    for _ in range(FIELDS_MAX):
        if at >= size:
            return
        file.seek(at)
        head = file.read(_HEAD)
        tag, used = _varint(head, 0)
        field, kind = tag >> 3, tag & 7
        if kind == 2:
            length, used = _varint(head, used)
            if field == _METADATA and length <= left:
                left -= length
                file.seek(at + used)
                yield file.read(length)
            at += used + length
        else:
            at += _plain(head, used, kind)


def _plain(head: bytes, used: int, kind: int) -> int:
    """Return the size in bytes of a numeric field, including its tag. Raises ValueError for a wire type that ONNX does
    not use.
    """
    if kind == 0:
        return _varint(head, used)[1]
    if kind in {1, 5}:
        return used + (8 if kind == 1 else 4)
    raise ValueError(kind)


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the number and bytes of each field of a message that contains only strings. Raises ValueError or IndexError
    if the message is damaged.
    """
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 != 2:
            raise ValueError(tag)
        length, at = _varint(data, at)
        yield tag >> 3, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the decoded number and the position after it. Raises IndexError if the data ends too early."""
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
        if shift > 63:
            raise ValueError(number)
