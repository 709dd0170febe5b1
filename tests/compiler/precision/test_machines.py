"""Ranges, bytes and results are the same whatever kernels the machine's libraries choose."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = """
import hashlib, json, sys
import compiler
from tests.compiler.precision.test_convert import feeds, network
found = {}
for precision in ("int8", "float16"):
    graph = compiler.load(network())
    calibration = compiler.calibrate(graph, feeds(2), precision)
    program = compiler.compile(graph, precision=precision, calibration=calibration)
    outputs, _ = compiler.simulate(program.to_bytes(), feeds(1)[0])
    found[precision] = [hashlib.sha256(calibration.to_json().encode()).hexdigest(), program.digest, outputs["y"].tolist()]
print(json.dumps(found))
"""


def result(**environment):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_other_kernels_and_hash_seeds_give_the_same_bytes_and_results():
    plain = result(PYTHONHASHSEED="1", OPENBLAS_CORETYPE="Haswell")
    other = result(PYTHONHASHSEED="2", OPENBLAS_CORETYPE="Nehalem", NPY_DISABLE_CPU_FEATURES="AVX2 FMA3 AVX512F")
    assert plain == other
