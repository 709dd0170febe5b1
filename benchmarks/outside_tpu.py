"""Four networks of the first TPU's paper on ``systolic``: part ``tpu`` of ``benchmarks.outside``.

N. P. Jouppi and others, "In-datacenter performance analysis of a tensor processing unit", ISCA 2017: sizes and batches from
table 1, TOPS and counters from table 3. Models are compiled from ONNX to int8 as any model is, and nothing is tuned. The paper
gives weights and layers but few shapes, so MLP0 is five layers of 2,000 x 2,000, MLP1 four of 1,118 x 1,118, LSTM0 twelve
cells of 736 units and LSTM1 twelve of 600, each for one time step. The 600 is the paper's.

All four wait for weight memory, 34 GB/s. Where ours is faster there are two terms:

- *Whole tiles.* The TPU moves weights as tiles of 256 x 256 bytes. A matrix of 600 x 600 is nine tiles, 590 kB for 360 kB of
  weights; `systolic` moves the 360 kB. Table 3 gives the share that is of use, useful over active array cycles: 98 % (MLP0), 89
  %, 100 % (LSTM0) and 60 % (LSTM1). For LSTM1, whose matrices are known, the padded model is compiled and run too.
- *Counters and measurements differ.* Loading a tile into the array shifts for 256 cycles, so a share of s of all cycles for
  shifting is a tile every 256 / s cycles. With the batch and the share of use that gives TOPS by counters: 11.2, 7.2, 3.6 and
  3.5 where 12.3, 9.7, 3.7 and 2.8 were measured. The paper says that the measurements are of other code than the counters, and
  that these do not explain all idle time (10 % of LSTM1's cycles are neither arithmetic nor weights).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import compiler
from compiler import targets
from compiler.ir.graph import Graph
from compiler.program import Program
from compiler.targets import Target

TILE = 256  # rows and columns of the array, and of what its weight memory hands over at once
CLOCK = 700_000_000  # Hz


@dataclass(frozen=True)
class Network:
    """A row of the paper. ``size``: inputs and outputs of a layer, or units of a cell; ``ceiling``: of its roofline, in TOPS;
    ``active``, ``useful``, ``shift``: shares of cycles in table 3; ``is_tiled``: whether the paper names the matrices."""

    name: str
    layers: int
    size: int
    batch: int
    published: float
    ceiling: float
    active: float
    useful: float
    shift: float
    is_tiled: bool = False

    @property
    def is_recurrent(self) -> bool:
        return self.name.startswith("LSTM")

    @property
    def weights(self) -> int:
        """Multiplied per example: of eight matrices in a cell."""
        return self.layers * self.size**2 * (8 if self.is_recurrent else 1)

    @property
    def share(self) -> float:
        """Weights of use among those that were moved."""
        return self.useful / self.active

    @property
    def by_counters(self) -> float:
        """TOPS that the paper's counters give."""
        return 2 * self.batch * TILE**2 * self.share * CLOCK * self.shift / TILE / 1e12

    def model(self, size: int) -> bytes:
        return lstm(self.layers, size, self.batch) if self.is_recurrent else mlp(self.layers, size, self.batch)


NETWORKS = (
    Network("MLP0", 5, 2000, 200, 12.3, 13.6, 0.127, 0.125, 0.159),
    Network("MLP1", 4, 1118, 168, 9.7, 11.4, 0.106, 0.094, 0.134),
    Network("LSTM0", 12, 736, 64, 3.7, 4.35, 0.082, 0.082, 0.158),
    Network("LSTM1", 12, 600, 96, 2.8, 6.53, 0.105, 0.063, 0.171, is_tiled=True),
)


def mlp(layers: int, size: int, batch: int) -> bytes:
    """Layers of ``size`` x ``size`` with ReLU."""
    from onnx import helper

    nodes, weights = [], []
    for n in range(layers):
        weights += [_weights(f"w{n}", (size, size), n), _weights(f"b{n}", (size,), 50 + n)]
        nodes.append(helper.make_node("Gemm", [f"x{n}", f"w{n}", f"b{n}"], [f"s{n}"], f"layer{n}"))
        nodes.append(helper.make_node("Relu", [f"s{n}"], [f"x{n + 1}"], f"relu{n}"))
    return _model("mlp", nodes, weights, {"x0": (batch, size)}, {f"x{layers}": (batch, size)})


def lstm(cells: int, size: int, batch: int) -> bytes:
    """LSTM cells of ``size`` units, one above the other, for one time step."""
    from onnx import helper

    nodes, weights = [], []
    inputs, outputs = {"x0": (batch, size)}, {f"x{cells}": (batch, size)}

    def node(op: str, read: list[str], written: list[str], **attributes: Any) -> None:
        nodes.append(helper.make_node(op, read, written, f"{op}.{written[0]}", **attributes))

    for n in range(cells):
        weights += [_weights(f"w{n}", (size, 4 * size), n), _weights(f"u{n}", (size, 4 * size), 100 + n)]
        weights += [_weights(f"b{n}", (4 * size,), 200 + n)]
        inputs |= {f"h{n}": (batch, size), f"c{n}": (batch, size)}
        outputs[f"c{n}_next"] = (batch, size)
        node("MatMul", [f"x{n}", f"w{n}"], [f"p{n}"])
        node("MatMul", [f"h{n}", f"u{n}"], [f"q{n}"])
        node("Add", [f"p{n}", f"q{n}"], [f"r{n}"])
        node("Add", [f"r{n}", f"b{n}"], [f"g{n}"])
        node("Split", [f"g{n}"], [f"{gate}{n}" for gate in ("i", "o", "f", "z")], axis=1, num_outputs=4)
        for gate in ("i", "o", "f"):
            node("Sigmoid", [f"{gate}{n}"], [f"{gate}{n}s"])
        node("Tanh", [f"z{n}"], [f"z{n}t"])
        node("Mul", [f"f{n}s", f"c{n}"], [f"kept{n}"])
        node("Mul", [f"i{n}s", f"z{n}t"], [f"new{n}"])
        node("Add", [f"kept{n}", f"new{n}"], [f"c{n}_next"])
        node("Tanh", [f"c{n}_next"], [f"c{n}t"])
        node("Mul", [f"o{n}s", f"c{n}t"], [f"x{n + 1}"])
    return _model("lstm", nodes, weights, inputs, outputs)


def _weights(name: str, shape: tuple[int, ...], seed: int) -> Any:
    from onnx import numpy_helper

    array = np.random.default_rng(seed).standard_normal(shape) / np.sqrt(shape[0])
    return numpy_helper.from_array(array.astype(np.float32), name)


def _model(name: str, nodes: list[Any], weights: list[Any], inputs: dict[str, Any], outputs: dict[str, Any]) -> bytes:
    from onnx import TensorProto, helper

    infos = [
        [helper.make_tensor_value_info(key, TensorProto.FLOAT, shape) for key, shape in some.items()]
        for some in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, name, infos[0], infos[1], weights)
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString())


def tpu(simulate: bool) -> bool:
    """Prints the table; whether every figure is within a quarter of the published one, or in whole tiles of the counters'."""
    target = targets.load("systolic")
    fine = True
    for network in NETWORKS:
        program = _compiled(network.model(network.size), target, simulate)
        tops = _line(network, program, target)
        tiled = tops * network.share
        if network.is_tiled:
            padded = _compiled(network.model(-(-network.size // TILE) * TILE), target, simulate)
            tiled = _tops(network, padded, target)
        print(
            f"  in whole tiles {tiled:.2f}{' (compiled)' if network.is_tiled else ''}, by the paper's counters "
            f"{network.by_counters:.2f}; ratios {tiled / network.published:.3f} and {tiled / network.by_counters:.3f}",
            flush=True,
        )
        fine &= _near(tops / network.published) or _near(tiled / network.by_counters)
    return fine


def _near(ratio: float) -> bool:
    return 0.75 <= ratio <= 1.25


def _compiled(model: bytes, target: Target, simulate: bool) -> Program:
    graph = compiler.load(model)
    feeds = _feeds(graph)
    program = compiler.compile(graph, target, "int8", compiler.calibrate(graph, feeds, "int8"))
    if simulate:
        _, counters = compiler.simulate(program.to_bytes(), feeds[0], target)
        assert counters == program.resources, "the counters are not the program's resources"
    return program


def _feeds(graph: Graph) -> list[dict[str, Any]]:
    rng = np.random.default_rng(3)
    return [{n: rng.standard_normal(graph.types[n].shape).astype(np.float32) for n in graph.inputs}]


def _tops(network: Network, program: Program, target: Target, *, alone: bool = False) -> float:
    """The paper counts a multiply and an add per weight and example. ``alone``: one batch, not back to back."""
    cycles = program.resources.cycles if alone else program.resources.interval
    return 2 * network.batch * network.weights * target.clock_hz / cycles / 1e12


def _line(network: Network, program: Program, target: Target) -> float:
    """Prints what was compiled; its TOPS back to back."""
    r = program.resources
    units = {u["name"]: u["busy"] for u in program.report()["units"] if u["busy"]}
    busy = sorted(units.items(), key=lambda unit: -unit[1])
    fetch = -(-r.io.external_in // target.external.bytes_per_cycle)
    tops, published = _tops(network, program, target), network.published
    low = {key: program.bounds[key]["bound"] for key in ("latency", "interval")}
    print(f"{network.name}: {network.weights / 1e6:.1f} M weights, batch {network.batch}")
    print(f"  TOPS: {tops:.2f} back to back, {_tops(network, program, target, alone=True):.2f} one batch alone")
    print(f"  published {published}, roofline {network.ceiling}; ours / published {tops / published:.3f}")
    print(
        f"  latency {r.cycles:,} cycles (bound {low['latency']:,}), interval {r.interval:,} (bound {low['interval']:,})"
    )
    print("  busy: " + ", ".join(f"{unit} {cycles:,}" for unit, cycles in busy))
    print(f"  weight memory alone: {fetch:,} cycles; the interval is {r.interval - fetch:,} longer")
    return tops
