"""Models damaged in every way, each compiled in a child that may use so much time and memory and no more."""

from __future__ import annotations

import gc
import os
import random
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import Message

import compiler

CPU = 10  # seconds
STUCK = 300  # seconds on the clock, for what waits and uses none
MEMORY = 1 << 30  # bytes above what the interpreter has
HUGE = (0, 1, -1, 2, 255, 1 << 16, 1 << 31, (1 << 31) - 1, -(1 << 31), 1 << 40, (1 << 63) - 1, -(1 << 63))
PROGRAM, REFUSED = "program", "ModelError"


def by_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bytes changed, cut out, repeated, inserted, or cut off."""
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
        place = rng.randrange(len(damaged) + 1)
        span = min(rng.randint(1, 64), len(damaged) - place)
        kind = rng.choice((0, 0, 0, 1, 2, 3, 4))
        if kind == 0 and place < len(damaged):
            damaged[place] = rng.randrange(256)
        elif kind == 1:
            del damaged[place : place + span]
        elif kind == 2:
            damaged[place:place] = damaged[place : place + span]
        elif kind == 3:
            damaged[place:place] = rng.randbytes(span)
        elif rng.random() < 0.2:
            del damaged[place:]
    return bytes(damaged)


def by_fields(data: bytes, rng: random.Random) -> bytes:
    """Fields of the protobuf with another value of their type, or without one."""
    model = onnx.load_model_from_string(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        message = rng.choice(list(_messages(model, 2000)))
        fields = [f for f, _ in message.ListFields()]
        if not fields:
            continue
        field = rng.choice(fields)
        if rng.random() < 0.2:
            message.ClearField(field.name)
        else:
            _change(message, field, rng)
    return bytes(model.SerializeToString())


def _messages(message: Message, most: int) -> Iterator[Message]:
    """The message and those in it, the outermost first."""
    found = [message]
    for inner in found:
        if len(found) < most:
            for field, value in inner.ListFields():
                if field.type == field.TYPE_MESSAGE:
                    found += [value] if isinstance(value, Message) else list(value)[:400]
    yield from found[:most]


def _change(message: Message, field: Any, rng: random.Random) -> None:
    value = getattr(message, field.name)
    if field.type == field.TYPE_MESSAGE:
        if not isinstance(value, Message) and value:
            kept = list(value)
            rng.shuffle(kept)
            del value[:]
            value.extend(kept[: rng.randint(0, len(kept))])
        return
    many = not isinstance(value, (int, float, str, bytes))
    old = rng.choice(value) if many else value
    new = _other(old, rng)
    try:
        if many:
            value[rng.randrange(len(value))] = new
        else:
            setattr(message, field.name, new)
    except (ValueError, TypeError):  # the field holds less than the number
        message.ClearField(field.name)


def _other(value: Any, rng: random.Random) -> Any:
    if isinstance(value, str):
        return rng.choice(["", "x", value * 3, "é" * 5000, "Conv", "Loop", value[:-1]])
    if isinstance(value, bytes):
        return by_bytes(value, rng) if value else b"x"
    if isinstance(value, float):
        return rng.choice([0.0, -1.0, float("nan"), float("inf"), 1e38, value * 2])
    return rng.choice([*HUGE, value + 1, value - 1, rng.randrange(64)])


def by_graph(data: bytes, rng: random.Random) -> bytes:
    """Operations left out, repeated, renamed, moved, or reading another value."""
    model = onnx.load_model_from_string(data)
    nodes = model.graph.node
    names = [n for node in nodes for n in (*node.input, *node.output)] or [""]
    operators = [node.op_type for node in nodes] + [
        "Reshape",
        "Concat",
        "Tile",
        "Expand",
        "ConvTranspose",
        "TopK",
        "Pad",
    ]
    for _ in range(rng.choice((1, 1, 2, 4))):
        if not nodes:
            break
        place, kind = rng.randrange(len(nodes)), rng.randrange(6)
        node = nodes[place]
        if kind == 0:
            del nodes[place]
        elif kind == 1:
            nodes.add().CopyFrom(node)
        elif kind == 2:
            node.op_type = rng.choice(operators)
        elif kind == 3 and node.input:
            node.input[rng.randrange(len(node.input))] = rng.choice(names)
        elif kind == 4 and node.output:
            node.output[rng.randrange(len(node.output))] = rng.choice(names)
        else:
            dims = [d for v in (*model.graph.input, *model.graph.output) for d in v.type.tensor_type.shape.dim]
            if dims:
                rng.choice(dims).dim_value = rng.choice(HUGE)
    return bytes(model.SerializeToString())


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (by_bytes, by_fields, by_graph)


def verdict(data: bytes, dims: dict[str, int], precision: str = "float32") -> str:
    """What becomes of a model: ``PROGRAM``, ``REFUSED``, or what it should not have ended in."""
    reading, writing = os.pipe()
    gc.freeze()  # the child's collector leaves alone, and so shares, what is there already
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            said = _compiled(data, dims, precision)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is what this looks for
            said = _named(error)
        os.write(writing, said.encode(errors="replace")[:2000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return "time" if number in (signal.SIGXCPU, signal.SIGKILL) else f"signal {number}"
    return said


def _compiled(data: bytes, dims: dict[str, int], precision: str) -> str:
    now = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU, CPU + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(STUCK)
    try:
        compiler.compile(compiler.load(data, dims), precision=precision)
    except compiler.ModelError as error:
        return REFUSED if str(error).strip() else "a ModelError that says nothing"
    return PROGRAM


def _named(error: BaseException) -> str:
    """The error and the innermost place of it, short."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f" ({Path(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno})" if place else ""
    return f"{type(error).__name__}{where}: {' '.join(str(error).split())[:200]}"
