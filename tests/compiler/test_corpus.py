"""The corpus of `benchmarks/corpus`: wide enough, every name leads to a model, and its split stands still."""

from __future__ import annotations

import hashlib
from collections import Counter

from benchmarks import public
from benchmarks.corpus.listed import SOURCES, models
from benchmarks.corpus.split import PARTS, part
from bin.models import manifest
from tests.models import CASES, LARGE, LIGHT

MODELS = models()
# SHA-256 of the sorted lines "NAME PART". It changes only with the list, and a commit that changes the list says why: a model
# that is taken out or renamed after its figures were seen makes the part "report" worthless.
SPLIT = "25ab9229d3e55fe2419213b71883bd08aa65c2f456359d488375e5a3f26cd9bc"


def test_the_corpus_has_many_models_of_many_families_in_both_parts() -> None:
    assert len(MODELS) >= 60
    assert len({model.family for model in MODELS.values()}) >= 25
    parts = Counter(model.part for model in MODELS.values())
    assert sorted(parts) == sorted(PARTS)
    assert min(parts.values()) >= 50
    assert all(len({m.family for m in MODELS.values() if m.part == one}) >= 20 for one in PARTS)


def test_the_split_is_the_one_that_was_committed_before_any_tuning() -> None:
    lines = "\n".join(sorted(f"{model.name} {model.part}" for model in MODELS.values()))
    assert hashlib.sha256(lines.encode()).hexdigest() == SPLIT


def test_the_part_follows_from_the_name_alone() -> None:
    assert {name: part(name) for name in ("resnet18", "det", "nerf")} == {
        "resnet18": "report",
        "det": "work",
        "nerf": "work",
    }


def test_all_models_that_tests_fetch_are_in_the_corpus() -> None:
    of = {source: {m.name for m in MODELS.values() if m.source == source} for source in SOURCES}
    assert of["tested"] == set(CASES) | set(LARGE)
    assert of["public"] == set(manifest(public.LISTED))
    light = {path.stem.removeprefix("light_") for path in LIGHT.glob("light_*.onnx")}
    used = {name.removeprefix("light:") for name, _ in (CASES | LARGE).values() if name.startswith("light:")}
    assert {MODELS[name].recipe["name"] for name in of["light"]} == light - used


def test_an_exported_model_has_a_recipe_and_a_licence() -> None:
    exported = [model for model in MODELS.values() if model.source == "exported"]
    assert {model.licence for model in exported} <= {"Apache-2.0", "BSD-3-Clause", "MIT"}
    assert [model.name for model in exported if model.maker.count(".") != 1 or not model.package] == []
