"""Runs a model on this machine's CPU with ONNX Runtime. The latency is measured, not proven."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from apps.compilation.models import Program
from apps.dispatch.runners.block import Feeds, Outcome, Progress, stack
from apps.dispatch.runners.kept import session_of
from apps.dispatch.runners.runtime import hardware
from apps.registry.feeds.check import is_float

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

WARM_UP = 3
SAMPLES = 40
SECONDS_MAX = 10.0
NUMPY_OF_ONNX = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(int16)": "int16",
    "tensor(int8)": "int8",
    "tensor(uint8)": "uint8",
    "tensor(uint16)": "uint16",
    "tensor(uint32)": "uint32",
    "tensor(uint64)": "uint64",
    "tensor(bool)": "bool",
}


def run(program: Program, feeds: Sequence[Feeds], progress: Progress, clock: Callable[[], datetime]) -> Outcome:
    """Execute the model once for each feed, in sequence and on one thread."""
    session, constants, outputs = _prepared(program)
    durations: list[int] = []
    results: list[Feeds] = []
    started, began = clock(), time.perf_counter_ns()
    for number, feed in enumerate(feeds, start=1):
        before = time.perf_counter_ns()
        values = session.run(outputs, {**feed, **constants})
        durations.append(time.perf_counter_ns() - before)
        results.append(dict(zip(outputs, values, strict=True)))
        progress(number)
    wall_ns = time.perf_counter_ns() - began
    counters = {"durations_ns": durations, "hardware": hardware()}
    return Outcome(stack(results), counters, wall_ns, (started, max(started, clock())))


def measure(program: Program) -> list[int]:
    """Measure single executions on generated inputs for at most 10 seconds, but at least three. Return the durations in
    nanoseconds.
    """
    session, constants, outputs = _prepared(program)
    feed = {**_seeded(program), **constants}
    _warm_up(lambda: session.run(outputs, feed))
    durations: list[int] = []
    deadline = time.perf_counter() + SECONDS_MAX
    while len(durations) < SAMPLES and (len(durations) < 3 or time.perf_counter() < deadline):
        before = time.perf_counter_ns()
        session.run(outputs, feed)
        durations.append(time.perf_counter_ns() - before)
    return durations


def _warm_up(run: Callable[[], object]) -> None:
    # A slow model is warm after one execution.
    deadline = time.perf_counter() + SECONDS_MAX
    for _ in range(WARM_UP):
        run()
        if time.perf_counter() > deadline:
            return


def _prepared(program: Program) -> tuple[InferenceSession, Feeds, list[str]]:
    """Return the model's session, the inputs that the program fixes as constants, and the names of the program's
    outputs.
    """
    session = session_of(program.model_version)
    constants: Feeds = {}
    for wanted in session.get_inputs():
        if wanted.name in program.constants:
            dtype = NUMPY_OF_ONNX[wanted.type]
            constants[wanted.name] = np.array(program.constants[wanted.name], dtype=dtype)
    return session, constants, [one["name"] for one in program.outputs]


def _seeded(program: Program) -> dict[str, Any]:
    # The values are small non-negative numbers, the same every time.
    random = np.random.default_rng(0)
    feed: dict[str, Any] = {}
    for one in program.inputs:
        dtype = np.dtype(one["dtype"])
        values = random.random(one["shape"]) if is_float(dtype) else random.integers(0, 2, one["shape"])
        feed[one["name"]] = np.asarray(values, dtype)
    return feed
