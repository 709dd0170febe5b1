"""Damages real models and compiles them: ``python -m benchmarks.fuzz [N] [FIRST]``.

N models (5,000), of at most 10 MB, are made from real ones by changed bytes, by changed protobuf fields and by edits of the
graph. Each is compiled for ``lpu`` in float32 in a child that may use 10 s of CPU and 1 GB above the interpreter. Printed by
way: how many ended in a program, in a ``ModelError``, or in anything else, and each of these with its number (FIRST repeats
one). Exit status 1 if there were any.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

import compiler
from compiler.frontend import symbolic_dims
from tests.compiler.frontend.mutants import MUTATIONS, PROGRAM, REFUSED, verdict
from tests.models import CASES, model_bytes

SAMPLES = Path(__file__).parents[1] / "samples"
BYTES = 10_000_000


def models() -> list[tuple[str, bytes, dict[str, int]]]:
    """Name, bytes and sizes of the models that are small enough."""
    found = []
    for path in sorted(SAMPLES.glob("*.onnx")):
        data = path.read_bytes()
        found.append((path.stem, data, dict.fromkeys(symbolic_dims(data), 1)))
    found += [(case, *model_bytes(case)) for case in CASES]
    return [model for model in found if len(model[1]) <= BYTES]


def main(count: int = 5000, first: int = 0) -> int:
    """Damage and compile so many models; answers the exit status."""
    sources = models()
    for _, data, dims in sources:
        compiler.load(data, dims)  # each is a model before it is damaged
    name, data, dims = sources[0]
    compiler.compile(compiler.load(data, dims))  # what is imported here, no child imports
    found: dict[str, Counter[str]] = {mutation.__name__: Counter() for mutation in MUTATIONS}
    for number in range(first, first + count):
        rng = random.Random(number)
        name, data, dims = sources[number // len(MUTATIONS) % len(sources)]
        mutation = MUTATIONS[number % len(MUTATIONS)]
        said = verdict(mutation(data, rng), dims)
        kind = said if said in (PROGRAM, REFUSED) else "else"
        found[mutation.__name__][kind] += 1
        if kind == "else":
            print(f"  {number} {name} {mutation.__name__}: {said or 'ended without a word'}", flush=True)
    kinds = (PROGRAM, REFUSED, "else")
    print(f"{'':12}" + "".join(f"{kind:>12}" for kind in kinds))
    for way, counts in found.items():
        print(f"{way:12}" + "".join(f"{counts[kind]:>12}" for kind in kinds))
    wrong = sum(counts["else"] for counts in found.values())
    print(f"{count} models, {wrong} that ended in neither a program nor a ModelError")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))
