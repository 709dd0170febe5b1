"""Exports models of the corpus with seeded weights: `python -m benchmarks.corpus.export FOLDER NAME ...`

`python -m benchmarks.corpus make` calls it with the environment of `requirements.txt`; nothing else here needs torch.
Initial weights are those that the network's own makers draw, from a seed that follows from the model's name. What would make
a network degenerate is drawn instead: statistics of batch normalisation lie near those that leave activations alone, and
what begins as nothing but zeros (biases, places, gates) is drawn small, so that no branch can be folded away.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
import warnings
from pathlib import Path
from typing import Any

import onnx
import torch

from benchmarks.corpus.listed import Model, models

OPSET = 18
SMALL = 0.02


def main(folder: str, *names: str) -> int:
    """Write FOLDER/NAME.onnx for each name and print its name and SHA-256; answers the exit status."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)  # sums in one order: the same weights everywhere
    known = models()
    failed = 0
    for name in names:
        try:
            data = exported(known[name])
        except Exception as error:  # noqa: BLE001 - a report names what could not be exported; the others go on
            failed += 1
            reason = (str(error).strip().splitlines() or [""])[0]
            print(f"{name} failed: {type(error).__name__}: {reason}", flush=True)
            continue
        part = Path(folder) / f".{name}.part"
        part.write_bytes(data)
        part.replace(Path(folder) / f"{name}.onnx")
        print(f"{name} {hashlib.sha256(data).hexdigest()} {len(data)}", flush=True)
    return 1 if failed else 0


def exported(model: Model) -> bytes:
    """The ONNX file of a model whose source is ``exported``: fixed shapes, constants folded, no paths of this machine."""
    seed = int.from_bytes(hashlib.sha256(model.name.encode()).digest()[:7], "big")
    torch.manual_seed(seed)
    module, function = model.maker.split(".")
    network, inputs = getattr(importlib.import_module(f"benchmarks.corpus.nets.{module}"), function)(**model.recipe)
    network.eval()
    torch.manual_seed(seed + 1)
    plausible(network)
    with torch.no_grad():
        program = torch.onnx.export(
            network, inputs, dynamo=True, opset_version=OPSET, external_data=False, optimize=True, verbose=False
        )
    found = program.model_proto
    found.ir_version = 10
    found.producer_version = ""
    bare(found)
    onnx.checker.check_model(found)
    data: bytes = found.SerializeToString(deterministic=True)
    return data


def plausible(network: Any) -> None:
    """Draw what a fresh network leaves at zero or one, where trained ones have other values."""
    with torch.no_grad():
        for layer in network.modules():
            if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm) and layer.running_mean is not None:
                layer.running_mean.normal_(0, 0.05)
                layer.running_var.uniform_(1, 1.1)
                if layer.weight is not None:
                    layer.weight.uniform_(0.9, 1.1)
        for weights in network.parameters():
            if weights.is_floating_point() and not weights.any():
                weights.normal_(0, SMALL)


def bare(model: onnx.ModelProto) -> None:
    """Take out what the exporter notes about its source: paths and lines."""
    del model.metadata_props[:]
    graphs = [model.graph, *model.functions]
    while graphs:
        graph = graphs.pop()
        del graph.metadata_props[:]
        graph.doc_string = ""
        for kind in ("value_info", "input", "output", "initializer"):
            for thing in getattr(graph, kind) if isinstance(graph, onnx.GraphProto) else ():
                del thing.metadata_props[:]
                thing.doc_string = ""
        for node in graph.node:
            del node.metadata_props[:]
            node.doc_string = ""
            graphs += [part.g for part in node.attribute if part.type == onnx.AttributeProto.GRAPH]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
