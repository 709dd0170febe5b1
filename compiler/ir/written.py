"""Models written in the text form, as strings or files: recognised, read, bounded and verified like any other model."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from compiler.errors import ModelError
from compiler.ir.graph import Graph
from compiler.ir.parse import parse_lines
from compiler.ir.text import VERSION
from compiler.ir.tokens import meant
from compiler.ir.verifier import VerifyError, verify

FILE_BYTES = 1 << 28  # of text; more weights belong into the file of arrays
TENSOR_BYTES = 1 << 31  # as for ONNX models
POINTS = 1 << 40  # of one operation's loops
PASSES_OWN = ("wire", "combined")  # metadata that passes write for each other
FORM = f'takt text {VERSION}, then graph "NAME" {{'  # how the text form begins
_START = re.compile(rb'\A\s*+(?:#[^\n]*+\n\s*+)*+(?:takt\b|graph\s*+")')

Array = np.ndarray[Any, Any]


def text_of(model: object) -> tuple[str, Mapping[str, Array]] | None:
    """The text and the arrays it may name, if ``model`` is the text form or the path of a file of it; else None.

    A file is known by how it begins, which no ONNX file does; one whose name ends in ``.txt`` has to. ``model.txt`` finds
    arrays, by digest, in ``model.npz`` beside it. ``ModelError`` for a file that is too long or no text.
    """
    if isinstance(model, str) and _START.match(model.encode(errors="replace")):
        return model, {}
    if isinstance(model, str) and "\n" in model:
        raise ModelError(f"Line 1 of the text form: it begins with {FORM}; and a path has no line ends.")
    if not isinstance(model, str | PathLike):
        return None
    path = Path(model)
    try:
        with path.open("rb") as file:
            if not _START.match(file.read(1 << 16)) and path.suffix != ".txt":
                return None
            file.seek(0)
            data = file.read(FILE_BYTES + 1)
    except (OSError, ValueError):
        return None  # whoever reads models says what is wrong with the path
    if len(data) > FILE_BYTES:
        raise ModelError(
            f"The text form has more than {FILE_BYTES} bytes; put its weights into a file of arrays beside it."
        )
    try:
        return data.decode(), _arrays(path.with_suffix(".npz"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ModelError(f"Line {line} of the text form: it is no UTF-8 text.") from None


def _arrays(path: Path) -> Mapping[str, Array]:
    if not path.is_file():
        return {}
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ModelError(f"The file of arrays {path.name!r} cannot be read; write it with numpy.savez.") from error


def load(text: str, arrays: Mapping[str, Array] | None = None) -> Graph:
    """The verified graph of a text form. ``ModelError`` names the line at fault."""
    graph, lines = parse_lines(text, arrays)
    _check_sizes(graph, lines)
    try:
        return verify(graph)
    except VerifyError as error:
        named = re.findall(r"'([^']*)'", str(error))
        known = {*graph.types, *(node.name for node in graph.nodes)}
        hint = next((meant(name, graph.types) for name in named if name not in known), "")
        said = [(at, line) for name, line in lines.items() if (at := str(error).find(repr(name))) >= 0]
        raise _wrong(min(said)[1] if said else lines[""], f"{error}{hint or '.'}") from error


def _check_sizes(graph: Graph, lines: Mapping[str, int]) -> None:
    for name, kind in graph.types.items():
        if min(kind.shape, default=0) < 0 or kind.bytes > TENSOR_BYTES:
            raise _wrong(lines[name], f"{name!r} is {kind}; a tensor has at most {TENSOR_BYTES} bytes.")
    for node in graph.nodes:
        loops: tuple[int, ...] = getattr(node, "loops", ())
        if min(loops, default=0) < 0 or prod(loops) > POINTS:
            raise _wrong(lines[node.name], f"{node.name!r} has {list(loops)} loops; the limit is {POINTS} points.")
    for key in PASSES_OWN:
        if key in graph.metadata:
            raise _wrong(lines[f"meta {key}"], f"meta {key!r} belongs to a pass; leave it out.")


def _wrong(line: int, message: str) -> ModelError:
    return ModelError(f"Line {line} of the text form: {message}")
