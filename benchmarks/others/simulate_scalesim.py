"""Runs in an environment of its own: SCALE-Sim on the first layers of a topology; prints cycles and seconds as JSON.

`python simulate_scalesim.py TOPOLOGY.csv LAYERS`: a 256 x 256 weight-stationary array, bandwidth as it calculates it itself,
no traces on the disk. Its files go to the working folder.
"""

import contextlib
import csv
import io
import json
import resource
import sys
import time
from pathlib import Path

from scalesim.scale_sim import scalesim

CONFIG = """
[general]
run_name = measured
[architecture_presets]
ArrayHeight = 256
ArrayWidth = 256
IfmapSramSzkB = 24576
FilterSramSzkB = 24576
OfmapSramSzkB = 24576
IfmapOffset = 0
FilterOffset = 10000000
OfmapOffset = 20000000
Bandwidth = 256
Dataflow = ws
MemoryBanks = 1
ReadRequestBuffer = 64
WriteRequestBuffer = 64
[layout]
IfmapCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterCustomLayout = False
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = False
SparseRep = ellpack_block
OptimizedMapping = False
BlockSize = 8
RandomNumberGeneratorSeed = 40
[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
"""


def main(topology: Path, layers: int) -> None:
    with topology.open() as file:
        rows = list(csv.reader(file))[1 : layers + 1]
    folder = Path.cwd()
    names = "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,"
    (folder / "topology.csv").write_text(names + "\n" + "".join(", ".join(row[:8]) + ",\n" for row in rows))
    (folder / "layout.csv").write_text("Layer name,\n" + "".join(f"{row[0]}, {', '.join('1' * 20)},\n" for row in rows))
    (folder / "scale.cfg").write_text(CONFIG)
    began = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        run = scalesim(
            save_disk_space=True, verbose=False, config="scale.cfg", topology="topology.csv", layout="layout.csv"
        )
        run.run_scale(top_path="results")
    seconds = time.process_time() - began
    cycles = sum(layer.get_compute_report_items()[0] for layer in run.runner.single_layer_sim_object_list)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"cycles": int(cycles), "cpu": seconds, "peak_mb": peak, "layers": len(rows)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
