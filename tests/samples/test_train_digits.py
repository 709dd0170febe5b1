"""The sample models are what the script makes, and can do what their evaluations say."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from apps.registry.confidence import lower_bound
from samples.evaluation import SPLITS, dataset_digest, digits, evaluate
from samples.train_digits import HERE, SAMPLES, Sample, make

NAMES = [sample.name for sample in SAMPLES]


def document_of(name: str) -> dict[str, Any]:
    return json.loads((HERE / f"{name}.evaluation.json").read_text())


def test_the_three_parts_of_the_digits_share_no_item() -> None:
    spans = sorted(SPLITS.values())
    assert [a for a, _ in spans] == [0, *[b for _, b in spans[:-1]]]
    parts = digits()
    assert sum(len(labels) for _, labels in parts.values()) == 1797
    assert len({dataset_digest(name) for name in parts}) == 3


@pytest.mark.parametrize("name", NAMES)
def test_the_evaluation_is_that_of_the_shipped_file(name: str) -> None:
    path = HERE / f"{name}.onnx"
    assert document_of(name)["model_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    again, stored = evaluate(path), document_of(name)
    for split in ("choose", "evaluate"):
        now, then = again["splits"][split], stored["splits"][split]
        assert now["predicted"] == then["predicted"]
        assert now["correct"] == then["correct"] == sum(a == b for a, b in zip(then["predicted"], then["labels"], strict=True))
        assert now["dataset_digest"] == then["dataset_digest"] == dataset_digest(split)
        difference = np.array(now["confidence"], float) - np.array(then["confidence"], float)
        assert np.abs(difference).max() < 1e-4


@pytest.mark.parametrize("name", NAMES)
def test_the_stated_bound_follows_from_the_counts(name: str) -> None:
    document = document_of(name)
    final = document["splits"]["evaluate"]
    assert lower_bound(final["correct"], final["total"]) == Fraction(document["lower_bound_95"])


def test_the_large_model_is_surely_better_than_the_small_one() -> None:
    small, large = document_of("digits-small"), document_of("digits-large")
    observed = small["splits"]["evaluate"]["correct"] / small["splits"]["evaluate"]["total"]
    assert float(large["lower_bound_95"]) > observed


@pytest.mark.parametrize("sample", SAMPLES, ids=NAMES)
def test_training_again_gives_the_same_model(sample: Sample, tmp_path: Path) -> None:
    """Bit for bit where the machine multiplies as the first one did; otherwise within a few items in six hundred."""
    path = make(sample, tmp_path)
    new, old = json.loads(path.with_suffix(".evaluation.json").read_text()), document_of(sample.name)
    for split in ("choose", "evaluate"):
        assert abs(new["splits"][split]["correct"] - old["splits"][split]["correct"]) <= new["splits"][split]["total"] // 100
    fresh, shipped = onnx.load(path), onnx.load(HERE / f"{sample.name}.onnx")
    assert fresh.graph.node == shipped.graph.node
    assert [(w.name, w.dims) for w in fresh.graph.initializer] == [(w.name, w.dims) for w in shipped.graph.initializer]
