"""Tensors that a model keeps in side files: found beside it, checked, and mapped into memory instead of read.

A model names a side file by a path below its own folder, and a tensor by its first byte and its length. Nothing else may be
named: no path that leads out of the folder, no link, no file that is not there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto

from compiler.errors import ModelError

Array = np.ndarray[Any, Any]


def is_external(tensor: TensorProto) -> bool:
    """Whether the tensor's elements are in another file."""
    return tensor.data_location == TensorProto.EXTERNAL or bool(tensor.external_data)


def locations(model: ModelProto) -> list[str]:
    """Side files that the model's tensors name, sorted; those in subgraphs and functions too."""
    nodes = chain.from_iterable(f.node for f in model.functions)
    found = {_entries(t).get("location", "") for t in chain(_of_graph(model.graph), _of_nodes(nodes)) if is_external(t)}
    return sorted(found)


def digest(data: bytes, model: ModelProto, folder: Path | None) -> str:
    """SHA-256 of a model: of its bytes, and with side files of these, by name and contents, too."""
    whole = hashlib.sha256(data)
    for name in locations(model) if folder is not None else ():
        assert folder is not None
        with beside(folder, name, "The model").open("rb") as file:
            inner = hashlib.file_digest(file, "sha256")
        whole.update(name.encode() + b"\0" + inner.digest())
    return whole.hexdigest()


def mapped(tensor: TensorProto, folder: Path | None, size: int, what: str) -> Array:
    """The ``size`` bytes of a tensor as they lie in its file, read when they are used. ``ModelError`` if they are not there."""
    entries = _entries(tensor)
    name = entries.get("location", "")
    if folder is None:
        raise ModelError(
            f"{what} is stored in the file {name[:80]!r} beside the model. Give the model as a path with that file beside it, or "
            "upload both together."
        )
    path = beside(folder, name, what)
    numbers = [
        _number(entries.get(key, default), key, what) for key, default in (("offset", "0"), ("length", str(size)))
    ]
    offset, length = numbers
    if length != size:
        raise ModelError(
            f"{what} has {length} bytes in {name[:80]!r}, but its shape needs {size}. Export the model anew."
        )
    there = path.stat().st_size
    if offset + length > there:
        raise ModelError(
            f"{what} lies at bytes {offset} to {offset + length} of {name[:80]!r}, which has {there}. Give the whole file."
        )
    return np.memmap(path, np.uint8, "r", offset, (size,)) if size else np.empty(0, np.uint8)


def beside(folder: Path, name: str, what: str) -> Path:
    """The side file of that name below the model's folder."""
    pure = PurePosixPath(name)
    inside = name and not pure.is_absolute() and ".." not in pure.parts and "\\" not in name and "\0" not in name
    if not inside or PureWindowsPath(name).drive:
        raise ModelError(
            f"{what} names the file {name[:80]!r}, which is not below the model's folder. Save the model with its weights "
            "in a file beside it."
        )
    path = folder / pure
    if any(part.is_symlink() for part in (path, *path.parents[: len(pure.parts) - 1])):
        raise ModelError(f"{what} names {name[:80]!r}, which is a link. Put the file itself beside the model.")
    if not path.is_file():
        raise ModelError(f"{what} is stored in {name[:80]!r}, which is not there. Give that file with the model.")
    return path


def _entries(tensor: TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def _number(text: str, key: str, what: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise ModelError(f"{what} has the {key} {text[:40]!r}, which is no number of bytes. Export the model anew.")
    return int(text)


def _of_graph(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    yield from _of_nodes(graph.node)


def _of_nodes(nodes: Iterable[Any]) -> Iterator[TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                yield attribute.t
            if attribute.type == AttributeProto.GRAPH:
                yield from _of_graph(attribute.g)
