"""`takt plan`: from the same files it answers as the platform does, says whether a change fits, and names what is wrong."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import compiler
from apps.cli.main import main
from apps.cli.planning import programs
from apps.cli.planning.answer import answer_json, answer_of
from apps.cli.planning.evaluations import Known, together
from apps.cli.planning.reading import toml_read
from apps.cli.planning.task import FORMAT, WHAT
from apps.figures import percent_format, plain
from apps.fleet.seed import fleet_seed
from apps.planner import services
from apps.planner.metrics import Metric
from apps.planner.solver import Answers, Evaluated, Requirements
from apps.pricing.seed import seed as pricing_seed
from apps.pricing.selectors import book_in_force, document_of
from apps.registry import binomial
from compiler.precision import PRECISIONS
from compiler.targets import Target
from tests.cast import Cast
from tests.compilation.helpers import NOW, ask, compiled, run_remembered, sample_of
from tests.planner.places import written_by_hand

ROOT = Path(__file__).resolve().parents[2]
ALIKE = (
    "kind",
    "title",
    "pool",
    "price",
    "latency",
    "duration",
    "completion",
    "accuracy",
    "thresholds",
    "shares",
    "outputs",
    "certainty",
    "feasible",
    "on_frontier",
)


@pytest.fixture(autouse=True, scope="module")
def _compiled_once() -> Iterator[None]:
    """A model is compiled the first time that a plan of this file needs it; the compiler gives the same each time."""
    real, known = programs._compiled, {}

    def once(model: programs.Model, machine: Target, precision: str) -> programs.Facts | str:
        key = (model.name, model.sha256, str(model.dims), machine.digest, precision)
        if model.graph is None or model.ranges is not None:
            return real(model, machine, precision)
        if key not in known:
            known[key] = real(model, machine, precision)
        return known[key]

    with patch.object(programs, "_compiled", once):
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The sample task with all its files in one folder, for a volume in all and at a fixed instant."""
    for name in ("digits-small", "digits-large"):
        for end in ("onnx", "evaluation.json"):
            shutil.copy(ROOT / "samples" / f"{name}.{end}", tmp_path)
    shutil.copy(ROOT / "apps" / "fleet" / "demo.toml", tmp_path / "fleet.toml")
    shutil.copy(ROOT / "apps" / "pricing" / "books" / "book-2.json", tmp_path / "book.json")
    text = (ROOT / "samples" / "task.toml").read_text()
    text = text.replace("../apps/fleet/demo.toml", "fleet.toml").replace(
        "../apps/pricing/books/book-2.json", "book.json"
    )
    (tmp_path / "task.toml").write_text(text)
    return tmp_path


def change(folder: Path, *pairs: tuple[str, str], name: str = "task.toml") -> Path:
    path = folder / name
    text = path.read_text()
    for before, after in pairs:
        assert before in text
        text = text.replace(before, after)
    path.write_text(text)
    return path


def test_from_the_same_facts_it_answers_as_the_platform(cast: Cast, folder: Path) -> None:
    fleet_seed(now=NOW)
    pricing_seed(now=NOW, organisation=cast.organisation, owner=cast.owner, admin=cast.admin)
    for slug in ("digits-small", "digits-large"):
        for target in ("lpu", "lpu2"):
            compiled(cast, slug, target=target)
    version = sample_of(cast, "digits-small")
    run_remembered(ask(cast, version, precision="int8"))
    run_remembered(ask(cast, version, precision="int8", target="lpu2"))
    (folder / "book.json").write_text(json.dumps(document_of(book_in_force(at=NOW)).to_json()))
    text = (folder / "task.toml").read_text()
    strict, dear = {"accuracy": "0.952", "budget": "4"}, {"accuracy": "0.97", "budget": "0.5"}
    for items, stated in (10_000, {}), (10**11, strict), (10**12, dear):
        wanted: dict[str, Any] = {name: Fraction(value) for name, value in stated.items()}
        there = services.plan_create(
            subject=version, requirements=Requirements(items, **wanted), actor=cast.engineer, now=NOW
        )
        head, models = text.partition("[volume]")[0], text[text.index("[models.digits-small]") :]
        told = "".join(f"{name} = {value}\n" for name, value in stated.items())
        path = folder / "task.toml"
        path.write_text(f"{head}at = {NOW.isoformat()}\n[volume]\nitems = {items}\n[requirements]\n{told}{models}")
        here = answer_json(answer_of(path, now=NOW))
        assert alike(here["candidates"]) == alike(there.candidates)
        assert alike([here["chosen"] or {}]) == alike([there.chosen or {}])
        assert [row["values"] for row in here["changes"]] == [row["values"] for row in there.changes]


def alike(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What both say of a candidate; a host is measured there and not here."""
    found = [{name: row[name] for name in ALIKE} for row in rows if row and row["pool"] != "host-cpu"]
    return sorted(found, key=lambda row: (row["title"], row["pool"]))


def test_a_change_of_the_demand_is_held_against_the_plan(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = folder / "plan.toml"
    assert main(["plan", str(folder / "task.toml"), "-o", str(plan)]) == 0
    assert main(["plan", "--check", str(plan)]) == 0
    assert "**The task fits as planned: digits-small on lpu-a.**\n\n- nothing changed" in capsys.readouterr().out
    change(folder, ("5_000_000", "8_000_000"))
    assert main(["plan", "--check", str(plan)]) == 0
    said = capsys.readouterr().out
    assert "- volume changed (was 5,000,000 items a second for 24 h, is 8,000,000 items a second for 24 h)" in said
    assert "| Headroom | 97.2 % | 95.6 % (changed) |" in said
    change(folder, ("budget = 25", "budget = 1"))
    assert main(["plan", "--check", str(plan), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["fits"], document["changed"][-1]) == (False, "requirements changed")
    assert document["now"]["changes"][0]["said"].startswith("If you allow a budget of ")
    change(folder, ("budget = 1", "budget = 100"))
    change(folder, ("devices = 2", "devices = [{ name = 'a', state = 'failed' }]"), name="fleet.toml")
    assert main(["plan", "--check", str(plan)]) == 0
    said = capsys.readouterr().out
    assert "**The task fits, but not as planned: digits-small on lpu2-b" in said
    assert "- lpu-a has no active device." in said


def test_combinations_of_three_are_planned_kept_and_checked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for end in ("onnx", "evaluation.json"):
        shutil.copy(ROOT / "samples" / f"digits-batch.{end}", folder)
    path = change(folder, ("accuracy = 0.95", "accuracy = 0.97"))
    more = 'file = "digits-batch.onnx"\ndims = { batch = 1 }\nevaluation = "digits-batch.evaluation.json"\n'
    path.write_text(f"{path.read_text()}\n[models.digits-batch]\n{more}")
    assert main(["plan", str(path), "--json", "-o", str(folder / "plan.toml")]) == 0
    document = json.loads(capsys.readouterr().out)
    rows = {row["title"]: row for row in document["candidates"] if row["pool"] == "lpu-a"}
    three, chosen = rows["digits-small then digits-batch then digits-large"], document["chosen"]
    assert (len(three["thresholds"]), len(three["shares"]), len(three["lines"])) == (2, 2, 3)
    assert rows["vote of digits-large, digits-batch and digits-small"]["outputs"] == ["probabilities"] * 3
    assert chosen["title"] == "digits-batch then digits-large"
    assert main(["plan", "--check", str(folder / "plan.toml")]) == 0
    level = percent_format(*chosen["thresholds"], 2)
    assert plain(f"| Thresholds | {level} | {level} |") in capsys.readouterr().out
    change(folder, (f'thresholds = ["{chosen["thresholds"][0]}"]', 'thresholds = ["0.5", "0.5"]'), name="plan.toml")
    assert main(["plan", "--check", str(folder / "plan.toml")]) == 0
    assert plain(f"| Thresholds | 50.00 %, 50.00 % | {level} (changed) |") in capsys.readouterr().out


@pytest.mark.parametrize(("metric", "classes"), [("accuracy", 10), ("agreement", 10), ("exact", None), ("close", None)])
def test_programs_vote_where_an_answer_is_a_class(metric: str, classes: int | None) -> None:
    """Of other metrics the answers are "right" and "wrong", which nobody can vote for before the label is known."""
    graph = compiler.load((ROOT / "samples" / "digits-small.onnx").read_bytes())
    known: Any = Known(data=SimpleNamespace(metric=Metric(metric, limit=Decimal(1))))  # type: ignore[arg-type]
    answers = Evaluated(Answers.of([1], [1], ["1"]), Answers.of([1], [1], ["1"]), "probabilities")
    found = together(known, SimpleNamespace(graph=graph), answers)  # type: ignore[arg-type]
    assert (found["classes"], found["takes"]) == (classes, (("image", "F32", (1, 1, 8, 8)),))


def test_a_peak_that_the_devices_cannot_keep_up_with_does_not_fit(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One minute of a trace asks for more than all devices do, though the day as a whole would fit."""
    busiest = ["2026-11-01T12:00:00Z,1000000000"] * 24
    rows = ["timestamp,requests", "2026-11-01T00:00:00Z,1", *busiest, "2026-11-02T00:00:00Z,1"]
    (folder / "trace.csv").write_text("\n".join(rows) + "\n")
    path = change(folder, ("rate = 5_000_000 # items a second at most\nhours = 24", 'trace = "trace.csv"'))
    assert main(["plan", str(path), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["volume"]["peak_per_second"] == "400000000"
    (small,) = [row for row in found["candidates"] if (row["title"], row["pool"]) == ("digits-small", "lpu2-b")]
    assert small["reasons"][0].startswith("At peak load, the work needs ")
    assert Fraction(small["headroom"]) < 0 < small["devices"] - small["devices_active"]


def test_a_data_set_judges_every_precision_by_running_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with np.load(ROOT / "samples" / "digits.npz") as stored:
        np.savez(folder / "data.npz", **{name: array[:90] for name, array in stored.items()})
    path = change(
        folder,
        ("[models.digits-small]", '[data]\nfile = "data.npz"\nmetric = "agreement"\n\n[models.digits-small]'),
        ('evaluation = "digits-small.evaluation.json"\n', ""),
        ("accuracy = 0.95", "accuracy = 0.5"),
    )
    text = path.read_text()
    path.write_text(text[: text.index("[models.digits-large]")])
    assert main(["plan", str(path), "--json"]) == 0
    rows = {row["title"]: row for row in json.loads(capsys.readouterr().out)["candidates"] if row["pool"] == "lpu-a"}
    assert rows["digits-small"]["accuracy"] is not None
    assert Fraction(rows["digits-small in int8"]["accuracy"]) <= Fraction(rows["digits-small"]["accuracy"])


def test_reports_of_programs_stand_for_their_models(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(folder / "digits-small.onnx"), "--json"]) == 0
    (folder / "small.json").write_text(capsys.readouterr().out)
    change(folder, ("[volume]", f"at = {NOW.isoformat()}\n[volume]"))
    assert main(["plan", str(folder / "task.toml"), "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    change(
        folder, ('file = "digits-small.onnx"', 'programs = ["small.json"]'), ('precisions = ["float32", "int8"]\n', "")
    )
    assert main(["plan", str(folder / "task.toml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["chosen"] == whole["chosen"]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_precision_of_the_compiler_may_be_asked_for_or_brought(
    folder: Path, capsys: pytest.CaptureFixture[str], precision: str
) -> None:
    path = change(folder, ('precisions = ["float32", "int8"]', f'precisions = ["{precision}"]'))
    assert programs.models_read(toml_read(path, WHAT, FORMAT))[0].precisions == [precision]
    assert main(["report", str(folder / "digits-small.onnx"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    report["precision"] = precision
    (folder / "small.json").write_text(json.dumps(report))
    change(folder, ('file = "digits-small.onnx"', 'programs = ["small.json"]'), (f'precisions = ["{precision}"]\n', ""))
    assert programs.models_read(toml_read(path, WHAT, FORMAT))[0].precisions == [precision]


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([("format =", "formt =")], 'task.toml, format: it must be "takt-task/1"'),
        ([('class = "standard"', "class = standard")], "it is not TOML: Invalid value (at line 6, column 9)"),
        ([('class = "standard"', 'class = "best"')], "task.toml, class: a plan can't use class 'best'"),
        ([("hours = 24", "")], "task.toml, volume.hours: state for how many hours the rate holds"),
        ([("accuracy = 0.95", "acuracy = 0.95")], "requirements.acuracy: there is no such key; did you mean accuracy?"),
        ([("accuracy = 0.95", "accuracy = 95")], "requirements.accuracy: 95 is out of range"),
        (
            [("digits-small.onnx", "none.onnx")],
            "none.onnx: there is no such file; give an ONNX model (models.digits-small.file",
        ),
        (
            [("digits-small.evaluation", "digits-large.evaluation")],
            "model_sha256: it is of another model file (3319ea7840ac...",
        ),
        ([("fleet.toml", "task.toml")], 'format: the file must begin with format = "takt-fleet/1"; write that line.'),
        ([("book.json", "fleet.toml")], "fleet.toml, line 1: it is not JSON, or it is cut off"),
        ([("int8", "int4")], "models.digits-small.precisions: there is no precision 'int4'"),
    ],
)
def test_what_is_wrong_is_a_sentence_with_its_place(
    folder: Path, capsys: pytest.CaptureFixture[str], pairs: list[tuple[str, str]], said: str
) -> None:
    assert main(["plan", str(change(folder, *pairs))]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_a_machine_elsewhere_stands_beside_the_plan(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sha = json.loads((folder / "digits-small.evaluation.json").read_text())["model_sha256"]
    document = written_by_hand(sha, machine=["my-server"])
    (folder / "m.json").write_text(json.dumps(document))
    (folder / "prices.csv").write_text("machine,price,currency,unit,region\nmy-server,0.9,EUR,hour,here\n")
    section = (
        '[[places.measurements]]\nfile = "m.json"\n[[places.price_lists]]\nfile = "prices.csv"\nas_of = 2026-03-01\n'
    )
    path = change(folder, ('class = "standard"', f'class = "standard"\nat = {document["measured_at"]}'))
    path.write_text(path.read_text() + section)
    assert main(["plan", str(path), "--json"]) == 0
    (group,) = json.loads(capsys.readouterr().out)["places"]
    assert {row["kind"] for row in group["places"]} == {"pool", "hourly", "monthly"}


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(1, 3000), st.data(), st.sampled_from([0.05, 0.01, 0.0005]))
def test_without_scipy_the_tail_is_the_same(trials: int, data: st.DataObject, error: float) -> None:
    successes = data.draw(st.integers(1, trials))
    share = binomial.share_at(successes, trials, error)
    assert abs(binomial.share_halved(successes, trials, error) - share) < 1e-10
    assert binomial.tail_summed(successes, trials, share) == pytest.approx(
        binomial.tail(successes, trials, share), rel=1e-9
    )
