"""From a file to a parsed model, with every way in which it can be no model told apart."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]  # onnx brings it, without types
from onnx import FunctionProto, ModelProto

from compiler.errors import ModelError
from compiler.frontend import external
from compiler.frontend.limits import DEFAULT, Limits

_COMPILED = (b"TAKTBIN\n", b"TAKTBUN\n", b"TAKTBUS\n")  # how programs and bundles begin
POINTER = b"version https://git-lfs.github.com/spec/"  # how what Git LFS keeps in place of a file begins
Source = str | Path | bytes | ModelProto


def read_model(source: Source, limits: Limits = DEFAULT) -> tuple[ModelProto, str]:
    """The parsed model and the SHA-256 of its bytes and of its side files. ``ModelError`` for what is not an ONNX model."""
    if isinstance(source, ModelProto):
        data = source.SerializeToString(deterministic=True)
        return _checked(source), external.digest(data, source, None)
    if not isinstance(source, str | PathLike | bytes):
        raise ModelError(f"A model is given as a path, as bytes or as a ModelProto, not as {type(source).__name__}.")
    data = source if isinstance(source, bytes) else _file(Path(source), limits)
    if data.startswith(_COMPILED):
        raise ModelError("The file is a compiled program, not a model. Give the model that it was compiled from.")
    if not data:
        raise ModelError("The file is empty. Give a model in the ONNX format (usually *.onnx).")
    if len(data) > limits.file_bytes:
        raise ModelError(f"The file has {len(data)} bytes; the limit is {limits.file_bytes}.")
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise ModelError(_not_a_model(data)) from error
    if not model.HasField("graph") and _looks_like_text(data):
        raise ModelError(_not_a_model(data))
    return _checked(model), external.digest(data, model, folder_of(source))


def folder_of(source: Source) -> Path | None:
    """Where the side files of a model are: beside it, if it is given as a path."""
    return Path(source).parent if isinstance(source, str | PathLike) else None


def _file(path: Path, limits: Limits) -> bytes:
    try:
        if path.stat().st_size > limits.file_bytes:
            raise ModelError(f"The file has {path.stat().st_size} bytes; the limit is {limits.file_bytes}.")
        return path.read_bytes()
    except (OSError, ValueError) as error:  # a path with a null character is a ValueError
        reason = error.strerror if isinstance(error, OSError) else error
        raise ModelError(f"The file {path.name!r} cannot be read: {reason}.") from error


def _looks_like_text(data: bytes) -> bool:
    head = data[:4096]
    return all(byte in b"\t\n\r" or 32 <= byte < 127 or byte >= 128 for byte in head)


def _not_a_model(data: bytes) -> str:
    if data.startswith(POINTER):
        return "The file is a Git LFS pointer, not the model itself. Fetch the model: git lfs pull."
    if _looks_like_text(data):
        return "The file is text, not an ONNX model. Export the model to ONNX and give the *.onnx file."
    if data[:2] == b"PK":
        return "The file is an archive. Unpack it and give the *.onnx file inside."
    return "The file is no ONNX model, or it is cut off. Give a whole copy of it, or export it anew."


def _checked(model: ModelProto) -> ModelProto:
    if not _readable(model):
        raise ModelError(
            "A name in the file is not valid text, so the file is damaged. Give a whole copy of it, or export it anew."
        )
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise ModelError("The file holds no graph of operations. Give a model in the ONNX format (usually *.onnx).")
    if not model.graph.output:
        raise ModelError("The model has no outputs, so there is nothing to compute. Export it with its outputs.")
    if model.training_info:
        raise ModelError("The model holds training information; only inference is offered. Export the inference graph.")
    return model


def _readable(message: Message) -> bool:
    """Whether every text in the message is text (protobuf hands damaged ones out as bytes)."""
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING:
            texts = (value,) if isinstance(value, str | bytes) else value
            if not all(isinstance(text, str) for text in texts):
                return False
        if field.type == field.TYPE_MESSAGE and not all(_readable(inner) for inner in _messages(value)):
            return False
    return True


def _messages(value: Any) -> Iterable[Message]:
    return (value,) if isinstance(value, Message) else value


def opsets(model: ModelProto) -> dict[str, int]:
    """Version of each operator set by domain; the default domain is the empty string.

    A version that nobody has defined says nothing about what operators mean: ``ModelError``.
    """
    for function in model.functions:
        _versions(function)
    versions = _versions(model)
    if not versions and model.ir_version >= _STATED:
        raise ModelError(
            "The model does not say which version of the operators it uses (no opset_import). Export it anew."
        )
    versions.setdefault("", 1)
    return versions


def _versions(model: ModelProto | FunctionProto) -> dict[str, int]:
    versions: dict[str, int] = {}
    for imported in model.opset_import:
        domain, version = "" if imported.domain == "ai.onnx" else imported.domain, int(imported.version)
        if versions.setdefault(domain, version) != version:
            raise ModelError(
                f"The model imports {domain or 'ai.onnx'} in the versions {versions[domain]} and {version}. Export it anew."
            )
        most = _NEWEST.get(domain, version)
        if not 1 <= version <= most:
            raise ModelError(
                f"The model imports version {version} of {domain[:80] or 'ai.onnx'}; known are 1 to {most}. "
                f"Export it for a version among these."
            )
    return versions


_NEWEST = {"": onnx.defs.onnx_opset_version(), "ai.onnx.ml": onnx.helper.VERSION_TABLE[-1][3], "com.microsoft": 1}
_STATED = 3  # from this version of the format on, a model has to name its operator sets
