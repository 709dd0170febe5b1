"""Detect truncated model files and files that are not models, from the outermost fields of the protocol buffer."""

from __future__ import annotations

from typing import Any

MODEL_FIELDS = {1: 0, 2: 2, 3: 2, 4: 2, 5: 0, 6: 2, 7: 2, 8: 2, 14: 2, 20: 2, 25: 2, 26: 2}  # onnx.proto3, ModelProto
LENGTH_DELIMITED = 2


def varint(data: bytes, at: int) -> tuple[int, int] | None:
    """Read the variable-length integer at offset `at`, and return (value, next offset). Return None if the integer is
    incomplete or longer than ten bytes.
    """
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    return None


def missing_bytes(data: bytes) -> int | None:
    """Return the minimum number of bytes missing from a model file; 0 if the file is complete. Return None if the file
    is not a model file.
    """
    at, seen = 0, False
    while at < len(data):
        tag = varint(data, at)
        if tag is None:
            return 1 if seen else None
        number, kind = tag[0] >> 3, tag[0] & 7
        if MODEL_FIELDS.get(number) != kind:
            return None
        content = varint(data, tag[1])
        if content is None:
            return 1
        value, at = content
        if kind == LENGTH_DELIMITED:
            at += value
        seen = True
    return at - len(data)


def looks_like_text(data: bytes) -> bool:
    """Return whether the first kilobyte is readable text."""
    head = data[:1024]
    printable = sum(byte in b"\t\n\r" or 32 <= byte < 127 or byte >= 128 for byte in head)
    return printable == len(head) and b"\x00" not in head


def has_unreadable_text(message: Any) -> bool:
    """Return whether a parsed message contains text that is not UTF-8."""
    for field, value in message.ListFields():
        values = [value] if isinstance(value, str | bytes) or hasattr(value, "ListFields") else value
        if field.type == field.TYPE_STRING and any(isinstance(one, bytes) for one in values):
            return True
        if field.type == field.TYPE_MESSAGE and any(has_unreadable_text(one) for one in values):
            return True
    return False
