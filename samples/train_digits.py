"""Trains the sample models on scikit-learn's digits and writes them with their evaluations beside this file.

    python -m samples.train_digits [folder]

Half of the digits train, a sixth chooses thresholds, a third evaluates; no item is in two parts. Seeded throughout.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from samples.evaluation import digits, evaluate
from samples.export import model
from samples.networks import Layer, convolutional, perceptron, softmax_regression, train

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Sample:
    """One model to train: its network, its schedule, the batch dimension it is exported with."""

    name: str
    network: Callable[[np.random.Generator], list[Layer]]
    description: str
    epochs: int
    rate: float
    decay: float
    shifted: bool = False
    batch: int | str = 1


SAMPLES = (
    Sample(
        name="digits-small",
        network=softmax_regression,
        description="Handwritten digits, softmax regression",
        epochs=60,
        rate=0.02,
        decay=1e-3,
    ),
    Sample(
        name="digits-large",
        network=convolutional,
        description="Handwritten digits, two convolutions",
        epochs=30,
        rate=0.003,
        decay=1e-2,
        shifted=True,
    ),
    Sample(
        name="digits-batch",
        network=perceptron,
        description="Handwritten digits, one hidden layer, a batch of any length",
        epochs=60,
        rate=0.005,
        decay=1e-3,
        batch="batch",
    ),
)


def make(sample: Sample, folder: Path) -> Path:
    """Train one sample and write `<name>.onnx` and `<name>.evaluation.json` into the folder; returns the model's path."""
    images, labels = digits()["train"]
    rng = np.random.default_rng(7)
    layers = sample.network(rng)
    x = (images.reshape(len(images), -1) / 16).astype(np.float32)
    train(
        layers, x, labels, epochs=sample.epochs, rate=sample.rate, decay=sample.decay, shifted=sample.shifted, rng=rng
    )
    path = folder / f"{sample.name}.onnx"
    size = sum(parameter.size for layer in layers for parameter in layer.parameters)
    exported = model(sample.name, layers, batch=sample.batch, description=f"{sample.description}, {size:,} parameters.")
    path.write_bytes(exported.SerializeToString(deterministic=True))
    document = evaluate(path)
    path.with_suffix(".evaluation.json").write_text(json.dumps(document, separators=(",", ":")) + "\n")
    return path


def write_data(folder: Path) -> Path:
    """Write the 900 digits that no sample was trained on as a labelled data set, `digits.npz`; returns its path."""
    parts = [digits()[name] for name in ("choose", "evaluate")]
    images, labels = (np.concatenate(some) for some in zip(*parts, strict=True))
    path = folder / "digits.npz"
    np.savez_compressed(path, image=images.astype(np.uint8), labels=labels.astype(np.uint8))
    return path


def main(folder: Path = HERE) -> None:
    """Make every sample and print what each can do."""
    folder.mkdir(parents=True, exist_ok=True)
    write_data(folder)
    for sample in SAMPLES:
        path = make(sample, folder)
        document = json.loads(path.with_suffix(".evaluation.json").read_text())
        final = document["splits"]["evaluate"]
        print(
            f"{sample.name}: {path.stat().st_size} bytes, {final['correct']} of {final['total']} held-out items right, "
            f"at least {document['lower_bound_95']} with 95 % confidence"
        )


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:2]))
