"""A real program: compiled by the compiler, stored as its binary, executed by the simulator."""

from __future__ import annotations

from hashlib import sha256

import numpy as np
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

import compiler
from apps.compilation.models import Program
from apps.dispatch.feeds.check import Array
from compiler import targets
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Graph, Operand
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from tests.dispatch.scene import Scene


def graph_of(width: int, *, scale: float = 2.0) -> Graph:
    """y = sigmoid(scale * x + 1) over [1, width]."""
    b = Builder("scaled")
    x = b.input("x", TensorType(DType.F32, (1, width)))
    value = arg(0, DType.F32)
    y = b.compute((1, width), [Operand(x, Access.identity(2))], (value * scale + 1.0).op("sigmoid"))
    return b.finish({"y": y}, {}, {"opset": "17"})


def meant(x: Array, *, scale: float = 2.0) -> Array:
    """What the program computes, in double precision."""
    return 1.0 / (1.0 + np.exp(-(x.astype(np.float64) * scale + 1.0)))


def real_program(scene: Scene, *, width: int = 8, target: str = "lpu", scale: float = 2.0) -> Program:
    """The program compiled for `target`, as if a compile job had kept it; the market's pool runs that very target."""
    made = compiler.compile(graph_of(width, scale=scale), target=target)
    data, version = made.to_bytes(), targets.load(target)
    for processor in scene.market.processors.values():
        if processor.name == target:
            type(processor).objects.filter(pk=processor.pk).update(digest=version.digest, clock_hz=version.clock_hz)
            processor.refresh_from_db()
    counts = made.resources
    program = scene.program(
        shape=(1, width),
        outputs=(1, width),
        operations=counts.operations,
        interval=counts.interval,
        latency=counts.cycles,
        target=target,
    )
    program.resources, program.target_digest, program.clock_hz = counts.to_json(), version.digest, version.clock_hz
    program.digest, program.binary_bytes = sha256(data).hexdigest(), len(data)
    program.binary_key = default_storage.save(f"programs/{program.pk}.bin", ContentFile(data))
    program.save()
    for pool in (scene.market.lpu, scene.market.lpu2):
        pool.refresh_from_db()
    return program
