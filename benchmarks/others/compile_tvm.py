"""Runs in an environment of its own: TVM's Relax compiles an ONNX model for this machine; prints seconds as JSON.

`python compile_tvm.py MODEL.onnx '{"input": [1, 3, 224, 224]}'`: its default pipeline, without tuning.
"""

import json
import resource
import sys
import time
import warnings

import onnx
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx


def main(path: str, shapes: dict[str, list[int]]) -> None:
    model = onnx.load(path)
    wall, began = time.perf_counter(), time.process_time()
    module = relax.transform.DecomposeOpsForInference()(from_onnx(model, shape_dict=shapes or None))
    tvm.compile(module, tvm.target.Target("llvm"))
    seconds = {"cpu": time.process_time() - began, "wall": time.perf_counter() - wall}
    print(json.dumps({**seconds, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1], json.loads(sys.argv[2]))
