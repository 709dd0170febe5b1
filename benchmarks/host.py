"""What a device of a host pool does in an hour: `python -m benchmarks.host [ROUNDS] [--record]`

Runs ResNet-50 in float32, image by image, as a host pool's worker does (ONNX Runtime, one thread), in rounds of five, and looks
at which share of the machine's processors others took meanwhile. The figure is the median of the quietest rounds, in processor
time: a thread that waits for its turn does nothing, and a quiet machine's clock says the same. With ``--record`` it is written,
with its date, this command, the hardware and how quiet it was, to where `/prices/derivation` reads it.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from apps.dispatch.runners.runtime import hardware, session_open
from benchmarks.arguments import parser, whole

RECORD = Path(__file__).resolve().parent.parent / "apps" / "pricing" / "books" / "host-measured.json"
FORMAT = "takt-host-measurement/1"
IMAGES = 5  # of a round
QUIETEST = 5  # rounds that count
WARM_UP = 3
HZ = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Round:
    """Seconds of each image by the clock and of processor time, and the share of all processors that others took meanwhile."""

    clock: tuple[float, ...]
    processor: tuple[float, ...]
    others: float


def main(arguments: list[str]) -> int:
    """Measure, print, and write where that is asked for."""
    command = parser("host", __doc__ or "")
    command.add_argument("rounds", nargs="?", type=whole, default=40, help="default: 40")
    command.add_argument("--record", action="store_true", help=f"write {RECORD.name}")
    asked = command.parse_args(arguments)
    import compiler
    from tests.models import model_bytes, sensible_feeds

    data, dims = model_bytes("resnet50")
    graph = compiler.load(data, dims=dims)
    operations = compiler.compile(graph, target="lpu", objective="interval").resources.operations
    session, feeds = session_open(data), sensible_feeds(graph, 0)
    for _ in range(WARM_UP):
        session.run(None, feeds)
    rounds = [_round(lambda: session.run(None, feeds)) for _ in range(max(asked.rounds, QUIETEST))]
    found = record_of(rounds, operations)
    print(json.dumps(found, indent=1))
    if asked.record:
        RECORD.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


def _round(run: Callable[[], Any]) -> Round:
    clock, processor = [], []
    busy, every = _processors()
    for _ in range(IMAGES):
        before, own = time.perf_counter(), time.process_time()
        run()
        processor.append(time.process_time() - own)
        clock.append(time.perf_counter() - before)
    busy_now, every_now = _processors()
    others = max(0.0, (busy_now - busy) - sum(processor) * HZ)
    return Round(tuple(clock), tuple(processor), others / max(1, every_now - every))


def _processors() -> tuple[int, int]:
    """Ticks of all processors together: busy, and all."""
    ticks = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle = ticks[3] + ticks[4]
    return sum(ticks) - idle, sum(ticks)


def record_of(rounds: list[Round], operations: int) -> dict[str, Any]:
    """What is kept of a measurement: the median image of the quietest rounds."""
    best = sorted(rounds, key=lambda one: one.others)[:QUIETEST]
    processor, clock = (
        round(statistics.median(second for one in best for second in getattr(one, name)) * 10**6)
        for name in ("processor", "clock")
    )
    return {
        "format": FORMAT,
        "class": "host",
        "measured_on": datetime.now(UTC).date().isoformat(),
        "command": "python -m benchmarks.host --record",
        "hardware": hardware(),
        "processors": os.cpu_count(),
        "reference": "ResNet-50, one image",
        "precision": "float32",
        "operations": operations,
        "processor_microseconds": processor,
        "clock_microseconds": clock,
        "images": len(best) * IMAGES,
        "rounds": len(rounds),
        "others_percent": f"{best[-1].others * 100:.1f}",
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
