"""The corpus of `benchmarks/corpus`: wide enough, every name leads to a model, and its split stands still."""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from math import inf
from pathlib import Path
from typing import Any

import pytest

from benchmarks import corpus, public
from benchmarks.corpus import run, sources, summary
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


def test_every_recipe_calls_a_function_with_arguments_that_it_has() -> None:
    nets = Path(corpus.__file__).parent / "nets"  # read, since torch is not of this environment
    functions = {
        f"{path.stem}.{one.name}": one.args
        for path in nets.glob("*.py")
        for one in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(one, ast.FunctionDef) and not one.name.startswith("_")
    }
    for model in MODELS.values():
        if model.source == "exported":
            taken = functions[model.maker]
            names = [argument.arg for argument in taken.args]
            needed = names[: len(names) - len(taken.defaults)]
            assert set(needed) <= set(model.recipe) <= {*names, *(a.arg for a in taken.kwonlyargs)}, model.name


def test_a_model_that_is_not_exported_yet_names_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sources, "FOLDER", tmp_path)
    with pytest.raises(sources.NotMade, match=r"python -m benchmarks\.corpus make resnet18"):
        sources.data_of(MODELS["resnet18"])


def _row(part: str, number: int, latency: int | None, reason: str = "") -> dict[str, Any]:
    known = (
        {}
        if latency is None
        else {"latency": latency, "interval": 100, "throughput": 100, "latency_limit": "a", "interval_limit": "b"}
    )
    bounds = {"latency_bound": 100, "interval_bound": 100}
    return run.completed(
        {"name": f"{part}{number}", "part": part, "reason": reason} | bounds | known, run.OF["separate"]
    )


def test_what_has_no_program_counts_as_infinite_in_every_figure() -> None:
    rows = [_row("work", n, 110 + 10 * n) for n in range(8)] + [_row("work", n, None, "refused: no") for n in (8, 9)]
    rows += [_row("report", 0, 300)]
    first, _, latency, interval, _, second, _, other, *_ = summary.summaries(rows, run.OF["separate"])
    assert first == "work: 10 models; refused 2, time 0, memory 0, crashed 0, missing 0"
    assert latency.split() == ["latency", "ratio", "1.50", "inf", "1.80", "2", "2"]
    assert interval.split() == ["interval", "ratio", "1.00", "inf", "1.00", "2", "2"]
    assert second.startswith("report: 1 models; refused 0")
    assert other.split() == ["latency", "ratio", "3.00", "3.00", "3.00", "1", "0"]


def test_the_largest_latency_of_interval_programs_is_told() -> None:
    rows = [_row("work", n, 110) | {"interval_latency": latency} for n, latency in enumerate((200, 398, 413))]
    assert "latency of interval programs: at most 4.13 x its bound, 1 above 4" in [
        *summary.summaries(rows, run.OF["separate"])
    ]


def test_the_list_names_models_of_the_part_to_work_on_only() -> None:
    rows = [_row("work", 1, 161), _row("work", 2, 160), _row("work", 3, None, "time: x"), _row("report", 1, 900)]
    head, *lines = summary.far(rows, run.OF["separate"])
    assert head == "above 1.6 in latency or 1.4 in interval: 2 of work, 1 others"
    assert [line.split()[0] for line in lines] == ["work3", "work1"]


def test_the_90th_percentile_is_by_the_nearest_rank() -> None:
    assert summary.ninth([1.0]) == 1.0
    assert summary.ninth([float(n) for n in range(1, 11)]) == 9.0
    assert summary.ninth([*range(1, 10), inf, inf]) == inf


def test_a_run_says_what_it_found_and_what_ended_it() -> None:
    how = run.How("float32", "lpu", "separate", jobs=1, seconds=60, memory=8 * 10**9)
    (found,) = run.run([MODELS["squeezenet"]], how)
    assert found["reason"] == ""
    assert 1 <= found["latency_ratio"] <= 1.5
    assert 1 <= found["interval_ratio"] <= 1.5
    assert found["balanced_latency_ratio"] == ""
    (ended,) = run.run([MODELS["squeezenet"]], run.How("int8", "edge", "balanced", jobs=1, seconds=0, memory=8 * 10**9))
    assert ended["reason"] == "time: more than the limit"
    assert ended["balanced_latency_ratio"] == inf
