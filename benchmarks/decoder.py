"""Decoders with caches that grow: `python -m benchmarks.decoder [--steps N] [--layers N] [small] [gpt2]`.

``small``: a seeded decoder runs N steps (1,000) from an empty cache in float32, float16 and int8; every step's logits stand
beside ONNX Runtime's in float32, every step's counters beside the promised resources. ``gpt2``: GPT-2 with seeded tied
weights in int8, a context of 256: memory on `lpu`, its step beside the bound, seconds of loading and compiling; and a few
steps that run, beside ONNX Runtime. Per program: bytes over the link for a step, cycles of a token.
Ends with status 1 when float32 differs by more than 1e-3 of the largest logit, int8 keeps less than 20 dB, float16 less than
40 dB, a counter differs, the program does not fit, or a step of GPT-2 takes more than 1.5 times its bound.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from benchmarks.arguments import one_of, parser, whole

LARGEST, LEAST = 1e-3, {"float32": 60.0, "float16": 40.0, "int8": 20.0}
NEAR = 1.5
CONTEXT, CALIBRATION, RUN = 256, 4, 8  # of GPT-2: rows of its caches, steps that give ranges, steps that run


def main(arguments: list[str]) -> int:
    """Print a line for each program; answers the exit status."""
    command = parser("decoder", __doc__ or "")
    command.add_argument("cases", nargs="*", type=one_of(("small", "gpt2")), default=["small", "gpt2"])
    command.add_argument("--steps", type=whole, default=1000)
    command.add_argument("--layers", type=whole, default=12)
    options = command.parse_args(arguments)
    failed = sum(_small(p, options.steps) for p in LEAST) if "small" in options.cases else 0
    return 1 if (failed + _gpt2(options.layers) if "gpt2" in options.cases else failed) else 0


def _small(precision: str, steps: int) -> int:
    import compiler
    from tests.compiler.flow.growing import VOCABULARY, growing_decoder

    data = growing_decoder(positions="shape", longest=steps)
    graph = compiler.load(data, {"batch": 1, "sequence": 1}, context=steps)
    program = compiler.compile(graph, precision=precision)
    ids = np.random.default_rng(1).integers(0, VOCABULARY, (steps, 1, 1))
    return _run(f"small {precision}", data, program, precision, [{"input_ids": one} for one in ids])


def _gpt2(layers: int) -> int:
    import compiler
    from benchmarks.gpt2 import VOCABULARY, gpt2

    model = gpt2(layers)
    began = time.monotonic()
    graph = compiler.load(model, {"batch": 1, "sequence": 1}, context=CONTEXT)
    loaded = time.monotonic()
    ids = np.random.default_rng(5).integers(0, VOCABULARY, (CALIBRATION + RUN, 1, 1))
    feeds = [{"input_ids": one, "position_ids": np.array([[n]])} for n, one in enumerate(ids[:CALIBRATION])]
    ranges = compiler.calibrate(graph, feeds, "int8")
    known = time.monotonic()
    program = compiler.compile(graph, precision="int8", calibration=ranges)
    done = time.monotonic()
    bound, head = program.bounds["latency"], program.report()["headline"]
    print(
        f"gpt2 of {layers} layers: {head['memory_used']:,} of {head['memory_bytes']:,} bytes on {head['target']}, step "
        f"{bound['ours']:,} cycles = {bound['ratio']} x bound, loaded in {loaded - began:.0f} s, ranges in "
        f"{known - loaded:.0f} s, compiled in {done - known:.0f} s",
        flush=True,
    )
    steps = [{"input_ids": one, "position_ids": np.array([[n]])} for n, one in enumerate(ids[CALIBRATION:])]
    failed = float(bound["ratio"]) > NEAR or program.resources.storage.external > 0
    return int(failed) + _run("gpt2 int8", model.SerializeToString(), program, "int8", steps)


def _run(title: str, data: bytes, program: Any, precision: str, feeds: list[dict[str, Any]]) -> int:
    """Steps from an empty cache beside ONNX Runtime; answers whether something is wrong."""
    import compiler

    session, reference = compiler.Session(program.to_bytes()), Reference(data)
    signal = noise = largest = peak = 0.0
    wrong = 0
    for feed in feeds:
        outputs, counters = session.run(feed)
        wrong += counters != program.resources
        want = reference.step(feed)
        error = want - outputs["logits"]
        signal, noise = signal + float((want**2).sum()), noise + float((error**2).sum())
        largest, peak = max(largest, float(np.abs(error).max())), max(peak, float(np.abs(want).max()))
    snr = 10 * np.log10(signal / noise) if noise else 999.0
    token, io = program.report()["sequence"], program.resources.io
    print(
        f"{title}: {len(feeds):,} steps, {snr:.1f} dB, largest error {largest / peak:.1e}, counters differ in {wrong}; "
        f"link {io.bytes_in:,} in, {io.bytes_out:,} out; {token['kind']} token {token['cycles_per_token']} cycles, "
        f"{program.bounds['latency']['ratio']} x bound; caches {program.resources.storage.state:,} bytes",
        flush=True,
    )
    return int(wrong > 0 or snr < LEAST[precision] or (precision == "float32" and largest > LARGEST * peak))


class Reference:
    """ONNX Runtime with caches that grow from nothing."""

    def __init__(self, data: bytes) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        self.session = onnxruntime.InferenceSession(data, options)
        past = [i for i in self.session.get_inputs() if i.name.startswith("past_")]
        self.caches = {i.name: np.zeros((1, i.shape[1], 0, i.shape[3]), np.float32) for i in past}
        self.names = [i.name for i in self.session.get_inputs()]
        self.length = 0

    def step(self, feed: dict[str, Any]) -> Any:
        self.length += feed["input_ids"].shape[1]
        whole = {**feed, "attention_mask": np.ones((1, self.length), np.int64), **self.caches}
        logits, *rest = self.session.run(None, {name: whole[name] for name in self.names})
        self.caches = dict(zip(self.caches, rest, strict=True))
        return logits.astype(np.float64)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
