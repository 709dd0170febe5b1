"""Outside checks: our cycles beside what others published. `python -m benchmarks.outside [--simulate] [PART ...]`

Parts: ``scalesim`` and ``tpu`` (both when none is named).

``scalesim``: SCALE-Sim's own ResNet-50 topology (54 layers) on a 256 x 256 weight-stationary array with resident weights,
layer by layer, each apart from the others, in bytes. Its closed form without overlap, ceil(K/R) ceil(N/C) (2R + C + T - 2)
- 1 cycles, comes to 438,375; a schedule that overlaps must be below it. It counts neither transfers to and from a host nor
lines of memory, so here the links and the array's memory ports are as wide as any tensor. The file comes from ``--topology`` or
``TAKT_SCALESIM``, else fetched (``benchmarks/data.toml``).

``tpu``: the four fully connected and recurrent networks of the first TPU's paper on ``systolic`` (``benchmarks.outside_tpu``).

Ends with status 1 when the total is not below the closed form, or a TOPS figure is further than a quarter from the
published one and from what the paper's counters explain.
"""

from __future__ import annotations

import csv
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

import compiler
from benchmarks.arguments import one_of, parser
from benchmarks.data import given_or_fetched
from benchmarks.outside_tpu import tpu
from compiler import targets
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Graph, Operand
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.isa.machine import NO_EXTERNAL
from compiler.program import Program
from compiler.targets import Target

CLOSED_FORM = 438_375
WIDE = 1 << 20  # bytes per cycle of a link that is no part of what is compared


@dataclass(frozen=True)
class Layer:
    """A row of the topology: a convolution whose output SCALE-Sim rounds up (what lies beyond the border is zero)."""

    name: str
    height: int
    width: int
    rows: int
    columns: int
    channels: int
    filters: int
    stride: int

    @property
    def pixels(self) -> tuple[int, int]:
        return tuple(-(-(size - window) // self.stride) + 1 for size, window in self.windows)  # type: ignore[return-value]

    @property
    def windows(self) -> tuple[tuple[int, int], tuple[int, int]]:
        return (self.height, self.rows), (self.width, self.columns)

    @property
    def closed_form(self) -> int:
        """SCALE-Sim's cycles on 256 x 256."""
        k, points = self.rows * self.columns * self.channels, self.pixels[0] * self.pixels[1]
        return -(-k // 256) * -(-self.filters // 256) * (2 * 256 + 256 + points - 2) - 1

    @property
    def macs(self) -> int:
        return self.pixels[0] * self.pixels[1] * self.rows * self.columns * self.channels * self.filters


def topology(path: Path) -> list[Layer]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return [Layer(row[0], *map(int, row[1:8])) for row in rows if row and row[0].strip()]


def layer_graph(layer: Layer) -> Graph:
    """One layer in bytes, channels last: products summed in 32 bits, scaled per filter and rounded to bytes."""
    b = Builder(layer.name)
    rng = np.random.default_rng(1)
    shape = (layer.rows, layer.columns, layer.channels, layer.filters)
    x = b.input("x", TensorType(DType.I8, (layer.height, layer.width, layer.channels)))
    w = b.constant(rng.integers(-127, 128, shape).astype(np.int8))
    scale = b.constant(np.full(layer.filters, 1 / (127 * 8 * np.sqrt(np.prod(shape[:3]))), np.float32))
    s = layer.stride
    window = Access((0, 0, 0), ((s, 0, 0, 1, 0, 0), (0, s, 0, 0, 1, 0), (0, 0, 0, 0, 0, 1)))
    weights = Access((0,) * 4, ((0, 0, 0, 1, 0, 0), (0, 0, 0, 0, 1, 0), (0, 0, 0, 0, 0, 1), (0, 0, 1, 0, 0, 0)))
    sums = arg(0, DType.I8).widen("mul", arg(1, DType.I8), DType.I32)
    post = (arg(-1, DType.I32).cast(DType.F32) * arg(2, DType.F32)).op("round").cast(DType.I8)
    per_filter = Access((0,), ((0, 0, 1, 0, 0, 0),))
    border = 0 if any((size - w) % layer.stride for size, w in layer.windows) else None
    operands = [Operand(x, window, border), Operand(w, weights), Operand(scale, per_filter)]
    loops = (*layer.pixels, layer.filters, *shape[:3])
    b.source = (layer.name,)
    y = b.compute(loops, operands, sums, parallel=3, reducer="sum", post=post)
    return b.finish({"y": y}, {}, {})


def resident(target: Target) -> Target:
    """The array with its weights on the chip, and links and ports that are never in the way."""
    changed: dict[str, Any] = {"external": NO_EXTERNAL, "name": "systolic-resident", "memory_bytes": 1 << 30}
    for name in ("link_in", "link_out", "weights", "matrix"):
        unit: Any = target.unit(name)
        changed[name] = replace(unit, ports=MappingProxyType(dict.fromkeys(unit.ports, WIDE // target.line_bytes)))
        if name.startswith("link"):
            changed[name] = replace(changed[name], bytes_per_cycle=WIDE, tile=WIDE, latency=1)
    return replace(target, digest="0" * 64, **changed)


def scalesim(path: Path, simulate: bool) -> bool:
    """Prints the table; whether the total is below the closed form."""
    target = resident(targets.load("systolic"))
    layers = topology(path)
    total = closed = macs = bound = 0
    print(f"{'layer':10} {'closed form':>12} {'ours':>9} {'bound':>9} {'ours/closed':>12}")
    for layer in layers:
        program = compiler.compile(layer_graph(layer), target)
        if simulate:
            _same(program, target)
        cycles, low = program.resources.cycles, program.bounds["latency"]["bound"]
        print(
            f"{layer.name:10} {layer.closed_form:>12,} {cycles:>9,} {low:>9,} {cycles / layer.closed_form:>12.3f}",
            flush=True,
        )
        total, closed, macs, bound = total + cycles, closed + layer.closed_form, macs + layer.macs, bound + low
    share = macs / (total * 256 * 256)
    print(f"{'total':10} {closed:>12,} {total:>9,} {bound:>9,} {total / closed:>12.3f}")
    print(f"{len(layers)} layers, {macs / 1e9:.3f} GMAC, {share:.1%} of the array's peak")
    assert closed == CLOSED_FORM, f"the topology's closed form is {closed}, not SCALE-Sim's {CLOSED_FORM}"
    return total < CLOSED_FORM


def _same(program: Program, target: Target) -> None:
    """The simulator counts what the program promised."""
    rng = np.random.default_rng(2)
    ports = [p for p in program.binary.ports if not p.output]
    feeds = {p.name: rng.integers(-127, 128, p.shape).astype(np.int8) for p in ports}
    _, counters = compiler.simulate(program.to_bytes(), feeds, target)
    assert counters == program.resources, "the counters are not the program's resources"


def main() -> int:
    options = parser("outside", __doc__)
    options.add_argument("parts", nargs="*", type=one_of(["scalesim", "tpu"]), metavar="PART")
    options.add_argument("--simulate", action="store_true", help="execute every program and compare its counters")
    options.add_argument("--topology", type=Path, default=os.environ.get("TAKT_SCALESIM"))
    chosen = options.parse_args()
    parts = chosen.parts or ["scalesim", "tpu"]
    fine = True
    if "scalesim" in parts:
        fine &= scalesim(given_or_fetched(chosen.topology, "scalesim-resnet50", options), chosen.simulate)
    if "tpu" in parts:
        fine &= tpu(chosen.simulate)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
