"""A real program: compiled by the compiler, stored as its binary, executed by the simulator."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import numpy as np
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

import compiler
from apps.compilation.models import Program
from apps.compilation.services import job_create as compile_job_create
from apps.registry.feeds.check import Array
from compiler import targets
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Graph, Guard, Operand
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from tests.compilation.helpers import run_remembered
from tests.dispatch.scene import Scene
from tests.registry.helpers import version_of

ROOT = Path(__file__).resolve().parents[2]


def graph_of(width: int, *, scale: float = 2.0) -> Graph:
    """y = sigmoid(scale * x + 1) over [1, width]."""
    b = Builder("scaled")
    x = b.input("x", TensorType(DType.F32, (1, width)))
    value = arg(0, DType.F32)
    y = b.compute((1, width), [Operand(x, Access.identity(2))], (value * scale + 1.0).op("sigmoid"))
    return b.finish({"y": y}, {}, {"opset": "17"})


def choosing_graph(width: int, *, threshold: float) -> Graph:
    """y = sigmoid(2 * x + 1) in several steps where an element of x exceeds ``threshold``, else 2 * x; one branch runs."""
    b = Builder("choosing")
    shape, everywhere = (1, width), Access.identity(2)
    x = b.input("x", TensorType(DType.F32, shape))
    b.source = ("look",)
    top = b.compute(shape, [Operand(x, everywhere)], arg(0, DType.F32), parallel=0, reducer="max")
    large = b.compute((), [Operand(top, Access((), ()))], arg(0, DType.F32).op("gt", threshold))
    b.source = ("choose",)
    b.guard = Guard(large)
    dear = x
    for step in (arg(0, DType.F32) * 2.0, arg(0, DType.F32) + 1.0, arg(0, DType.F32).op("sigmoid")):
        dear = b.compute(shape, [Operand(dear, everywhere)], step)
    b.guard = Guard(large, holds=False)
    cheap = b.compute(shape, [Operand(x, everywhere)], arg(0, DType.F32) * 2.0)
    b.guard = None
    y = b.merge([(Guard(large), dear), (Guard(large, holds=False), cheap)])
    return b.finish({"y": y}, {}, {"opset": "17"})


def meant(x: Array, *, scale: float = 2.0) -> Array:
    """What the program computes, in double precision."""
    return 1.0 / (1.0 + np.exp(-(x.astype(np.float64) * scale + 1.0)))


def processors_align(scene: Scene) -> None:
    """The market's pools offer the processor versions that the compiler knows."""
    for name, processor in scene.market.processors.items():
        version = targets.load(name)
        processor.digest, processor.clock_hz = version.digest, version.clock_hz
        processor.save(update_fields=["digest", "clock_hz"])
    for pool in (scene.market.lpu, scene.market.lpu2):
        pool.refresh_from_db()


def digits_programs(scene: Scene, name: str, *compiled_for: str) -> list[Program]:
    """A sample model through upload, check and compile, for each of the targets."""
    processors_align(scene)
    version = version_of(scene.cast, (ROOT / "samples" / f"{name}.onnx").read_bytes(), name)
    programs = []
    for target in compiled_for:
        job = compile_job_create(version=version, target=target, actor=scene.cast.engineer, now=scene.now)
        run_remembered(job, clock=lambda: scene.now)
        assert job.state == job.State.DONE, job.error
        programs += list(job.programs.select_related("model_version__model"))
    return programs


def real_program(
    scene: Scene, *, width: int = 8, target: str = "lpu", scale: float = 2.0, graph: Graph | None = None
) -> Program:
    """The program compiled for `target`, as if a compile job had kept it; the market's pool runs that very target."""
    made = compiler.compile(graph or graph_of(width, scale=scale), target=target)
    data, version = made.to_bytes(), targets.load(target)
    processors_align(scene)
    counts = made.resources
    program = scene.program(
        shape=(1, width),
        outputs=(1, width),
        operations=counts.operations,
        interval=counts.interval,
        latency=counts.cycles,
        target=target,
        exact=counts.exact,
    )
    program.reason = counts.reason
    program.resources, program.target_digest, program.clock_hz = counts.to_json(), version.digest, version.clock_hz
    program.digest, program.binary_bytes = sha256(data).hexdigest(), len(data)
    program.binary_key = default_storage.save(f"programs/{program.pk}.bin", ContentFile(data))
    program.save()
    return program
