"""Damages real models and compiles them: ``python -m benchmarks.fuzz [N] [FIRST]``.

N models (5,000), of at most 10 MB, are made from real ones by changed bytes, by changed protobuf fields and by edits of the
graph. Each is compiled for ``lpu``, in float32 or, one in three of the smallest, in int8, in a child that may use 10 s of CPU
and 1 GB above the interpreter. Printed by way: how many ended in a program, in a ``ModelError``, or in anything else, and each
of these with its number (FIRST repeats one). Exit status 1 if there were any.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import compiler
from benchmarks.arguments import counts
from compiler.frontend import symbolic_dims
from tests.compiler.frontend.mutants import MUTATIONS, PROGRAM, REFUSED, verdict
from tests.models import CASES, LARGE, model_bytes

SAMPLES = Path(__file__).parents[1] / "samples"
BYTES = 10_000_000
SMALLER = {  # images of a size at which 5,000 models take under an hour; other models have one size, or a small one
    "cls": {"x.0": 1, "x.2": 48, "x.3": 48},
    "det": {f"p2o.DynamicDimension.{n}": size for n, size in enumerate((1, 32, 32))},
}
CALIBRATED = ("silero", "digits-batch", "digits-large", "digits-small")  # those that an int8 program is made of quickly


class Model(NamedTuple):
    """A model that is not damaged yet."""

    name: str
    data: bytes
    dims: dict[str, int]

    def precision(self, number: int) -> str:
        """What damaged model ``number`` is compiled in."""
        return "int8" if self.name in CALIBRATED and number // len(MUTATIONS) % 3 == 0 else "float32"


def models() -> list[Model]:
    """The models that are small enough."""
    found = []
    for path in sorted(SAMPLES.glob("*.onnx")):
        data = path.read_bytes()
        found.append(Model(path.stem, data, dict.fromkeys(symbolic_dims(data), 1)))
    for case in (*CASES, *LARGE):
        data, dims = model_bytes(case)
        found.append(Model(case, data, SMALLER.get(case, dims)))
    return [model for model in found if len(model.data) <= BYTES]


def main(count: int = 5000, first: int = 0) -> int:
    """Damage and compile so many models; answers the exit status."""
    sources = models()
    for source in sources:
        compiler.load(source.data, source.dims)  # each is a model before it is damaged
    for precision in ("float32", "int8"):  # what is imported here, no child imports
        compiler.compile(compiler.load(sources[0].data, sources[0].dims), precision=precision)
    found: dict[str, Counter[str]] = {mutation.__name__: Counter() for mutation in MUTATIONS}
    for number in range(first, first + count):
        rng = random.Random(number)
        source = sources[number // len(MUTATIONS) % len(sources)]
        mutation = MUTATIONS[number % len(MUTATIONS)]
        said = verdict(mutation(source.data, rng), source.dims, source.precision(number))
        kind = said if said in (PROGRAM, REFUSED) else "else"
        found[mutation.__name__][kind] += 1
        if kind == "else":
            print(f"  {number} {source.name} {mutation.__name__}: {said or 'ended without a word'}", flush=True)
    kinds = (PROGRAM, REFUSED, "else")
    print(f"{'':12}" + "".join(f"{kind:>12}" for kind in kinds))
    for way, row in found.items():
        print(f"{way:12}" + "".join(f"{row[kind]:>12}" for kind in kinds))
    wrong = sum(row["else"] for row in found.values())
    print(f"{count} models, {wrong} that ended in neither a program nor a ModelError")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*counts("fuzz", __doc__, sys.argv[1:], count=5000, first=0)))
