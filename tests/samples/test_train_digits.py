"""The sample models are what the script makes, and can do what their evaluations say."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
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
        assert (
            now["correct"]
            == then["correct"]
            == sum(a == b for a, b in zip(then["predicted"], then["labels"], strict=True))
        )
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


def same_form(path: Path, name: str) -> bool:
    """The same operations and weights of the same shapes as in the shipped file."""
    fresh, shipped = onnx.load(path), onnx.load(HERE / f"{name}.onnx")
    shapes = [[(w.name, w.dims) for w in model.graph.initializer] for model in (fresh, shipped)]
    return list(fresh.graph.node) == list(shipped.graph.node) and shapes[0] == shapes[1]


def test_training_the_small_one_again_gives_the_same_model(tmp_path: Path) -> None:
    """Within a few items in six hundred, however this machine multiplies."""
    path = make(SAMPLES[0], tmp_path)
    new, old = json.loads(path.with_suffix(".evaluation.json").read_text()), document_of(SAMPLES[0].name)
    for split in ("choose", "evaluate"):
        assert (
            abs(new["splits"][split]["correct"] - old["splits"][split]["correct"])
            <= new["splits"][split]["total"] // 100
        )
    assert same_form(path, SAMPLES[0].name)


@pytest.mark.parametrize("sample", SAMPLES[1:], ids=NAMES[1:])
def test_an_epoch_of_the_others_learns_and_gives_the_form_of_the_shipped_file(sample: Sample, tmp_path: Path) -> None:
    """The whole training is `python -m samples.train_digits <folder>`; it takes a minute and more."""
    short = replace(sample, epochs=2, shifted=False)
    path = make(short, tmp_path)
    counts = json.loads(path.with_suffix(".evaluation.json").read_text())["splits"]["evaluate"]
    assert counts["correct"] > counts["total"] // 2
    assert same_form(path, sample.name)
