"""Runs a model repeatedly with ONNX Runtime and measures the time."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from apps.measurements import NANOSECONDS, nearest_rank, rate_text
from compiler.errors import ModelError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

WARM_UP, SAMPLES_MIN, SAMPLES_MAX = 3, 3, 100_000
QUIET = 3  # ONNX Runtime logs only errors
Feed = dict[str, "np.ndarray[Any, Any]"]
TYPES: Final = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(bool)": "bool",
    "tensor(int32)": "int32",
    "tensor(int64)": "int64",
}


class Unmeasurable(ModelError):
    """Raised if this machine cannot make the requested measurement."""


def runtime() -> Any:
    """Import ONNX Runtime. Raises Unmeasurable if it is not installed."""
    try:
        import onnxruntime
    except ImportError:
        raise Unmeasurable(
            "measuring needs ONNX Runtime, which is not installed here; install it with pip install onnxruntime, or "
            "onnxruntime-gpu for a GPU"
        ) from None
    return onnxruntime


def provider_check(provider: str) -> None:
    """Raise Unmeasurable if the installed ONNX Runtime lacks this execution provider."""
    available = runtime().get_available_providers()
    if provider not in available:
        raise Unmeasurable(
            f"--provider {provider}: ONNX Runtime {runtime().__version__} here has only {', '.join(available)}; install a build "
            "that has it, or choose one of these"
        )


def session_open(data: bytes, *, provider: str, threads: int, profile: Path | None = None) -> InferenceSession:
    """Load the model on this execution provider. Raises Unmeasurable if ONNX Runtime falls back to another provider."""
    library = runtime()
    options = library.SessionOptions()
    options.log_severity_level = QUIET
    options.intra_op_num_threads = threads
    if profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(profile)
    try:
        session = library.InferenceSession(data, options, providers=[provider])
    except Exception as error:
        raise Unmeasurable(f"ONNX Runtime cannot load the model: {' '.join(str(error).split())}") from error
    used = session.get_providers()
    if used[0] != provider:
        raise Unmeasurable(
            f"--provider {provider}: ONNX Runtime fell back to {used[0]}, so nothing was measured; check its driver and libraries"
        )
    return session


def nodes_by_provider(data: bytes, feed: Feed, *, provider: str, threads: int) -> dict[str, int]:
    """Return the number of nodes that each execution provider ran in one execution.

    Raises Unmeasurable if the chosen provider ran no nodes.
    """
    with tempfile.TemporaryDirectory() as folder:
        session = session_open(data, provider=provider, threads=threads, profile=Path(folder) / "run")
        _run(session, feed)
        events = json.loads(Path(session.end_profiling()).read_text())
    of_nodes = {
        event["name"]: event["args"]["provider"]
        for event in events
        if event.get("cat") == "Node" and event.get("args", {}).get("provider")
    }
    counted = dict(sorted(Counter(of_nodes.values()).items()))
    if of_nodes and provider not in counted:
        raise Unmeasurable(
            f"--provider {provider}: every node ran on {', '.join(counted)} instead, so nothing was measured"
        )
    return counted


def fitted(session: InferenceSession, feed: Feed) -> Feed:
    """Convert the inputs to the model's element types, and drop inputs that the model does not have."""
    kinds = {one.name: one.type for one in session.get_inputs()}
    return {
        name: np.asarray(value, TYPES.get(kinds[name], value.dtype)) for name, value in feed.items() if name in kinds
    }


def measured(
    session: InferenceSession,
    feed: Feed,
    *,
    concurrency: int,
    seconds: int,
    items: int,
    meter: Any,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> dict[str, Any]:
    """Return one row of the document, measured with `concurrency` threads. Latencies are in nanoseconds.

    `items` is the number of items in one execution.
    """
    for _ in range(WARM_UP):
        _run(session, feed)
    durations: list[list[int]] = [[] for _ in range(concurrency)]
    failed: list[BaseException] = []
    start = threading.Barrier(concurrency + 1)
    until = [0]

    def work(mine: list[int]) -> None:
        try:
            start.wait()
            while len(mine) < SAMPLES_MIN or (clock() < until[0] and len(mine) < SAMPLES_MAX // concurrency):
                before = clock()
                session.run(None, feed)
                mine.append(max(1, clock() - before))
        except Exception as error:  # noqa: BLE001 - told by the thread that waits
            failed.append(error)

    threads = [threading.Thread(target=work, args=(mine,), daemon=True) for mine in durations]
    for thread in threads:
        thread.start()
    meter.begin()
    began = clock()
    until[0] = began + seconds * NANOSECONDS
    start.wait()
    for thread in threads:
        thread.join()
    wall_ns = max(1, clock() - began)
    power, reason = meter.end(wall_ns)
    if failed:
        raise _unrunnable(failed[0])
    return _row([one for mine in durations for one in mine], wall_ns, items) | {"power": power, "power_reason": reason}


def _row(durations: list[int], wall_ns: int, items: int) -> dict[str, Any]:
    ordered = sorted(durations)
    total = len(ordered) * items
    ranks = {f"p{percent}_ns": nearest_rank(ordered, percent) for percent in (50, 95, 99)}
    return {
        "samples": len(ordered),
        "items": total,
        "wall_ns": wall_ns,
        "items_per_second": rate_text(total, wall_ns),
        **ranks,
    }


def _run(session: InferenceSession, feed: Feed) -> None:
    try:
        session.run(None, feed)
    except Exception as error:
        with suppress(Exception):
            session.end_profiling()
        raise _unrunnable(error) from error


def _unrunnable(error: BaseException) -> Unmeasurable:
    return Unmeasurable(f"ONNX Runtime cannot run the model: {' '.join(str(error).split())}")
