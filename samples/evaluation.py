"""What a sample model answers on held-out digits, item by item, so that cascades can be judged on unseen data."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from apps.registry.confidence import lower_bound
from samples.networks import Array

SPLITS = {"train": (0, 897), "choose": (897, 1197), "evaluate": (1197, 1797)}
SEED = 20250711


def digits() -> dict[str, tuple[Array, Array]]:
    """split -> (images float32 [items, 1, 8, 8] in 0..16, labels int64 [items]); a seeded shuffle, three disjoint parts."""
    from sklearn.datasets import load_digits

    data = load_digits()
    order = np.random.default_rng(SEED).permutation(len(data.target))
    images = data.images.astype(np.float32).reshape(-1, 1, 8, 8)[order]
    labels = data.target.astype(np.int64)[order]
    return {name: (images[a:b], labels[a:b]) for name, (a, b) in SPLITS.items()}


def dataset_digest(split: str) -> str:
    """SHA-256 over one split: images as bytes 0..16, then labels as bytes."""
    images, labels = digits()[split]
    return hashlib.sha256(images.astype(np.uint8).tobytes() + labels.astype(np.uint8).tobytes()).hexdigest()


def answers(path: Path, images: Array) -> Array:
    """Probabilities float32 [items, 10] of the model file, one item at a time through ONNX Runtime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    rows = [session.run(["probabilities"], {"image": image[None]})[0] for image in images]
    return np.concatenate(rows)


def evaluate(path: Path) -> dict[str, Any]:
    """The document that stands beside a model: counts, the bound, and prediction and confidence of every held-out item.

    Confidences are rounded to six places; a threshold is compared with these.
    """
    splits = {}
    for name in ("choose", "evaluate"):
        images, labels = digits()[name]
        probabilities = answers(path, images)
        predicted = probabilities.argmax(axis=1)
        splits[name] = {
            "dataset_digest": dataset_digest(name),
            "labels": labels.tolist(),
            "predicted": predicted.tolist(),
            "confidence": [f"{value:.6f}" for value in probabilities.max(axis=1).astype(np.float64)],
            "correct": int((predicted == labels).sum()),
            "total": len(labels),
        }
    final = splits["evaluate"]
    return {
        "format": "takt-evaluation/1",
        "model_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "dataset": "scikit-learn digits",
        "metric": "accuracy",
        "confidence_output": "probabilities",
        "lower_bound_95": f"{float(lower_bound(final['correct'], final['total'])):.6f}",
        "splits": splits,
    }
