"""Compile jobs: what they keep, what they refuse, and that a job that was interrupted or fenced harms nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.conf import settings
from django.core.files.storage import default_storage
from django.test import Client

import compiler
from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.compilation import selectors, services, stages
from apps.compilation.models import CompileJob, Program
from apps.compilation.services import running
from tests.cast import Cast
from tests.compilation.helpers import NOW, Clock, ask, compiled, run, run_remembered, sample_of
from tests.compilation.tenancy import own_file
from tests.registry import models
from tests.registry.helpers import version_of

AsUser = Callable[[User], Client]


def test_a_program_is_kept_with_what_its_execution_counted(cast: Cast) -> None:
    program = compiled(cast, "digits-large")
    data = selectors.program_bytes(program)
    assert hashlib.sha256(data).hexdigest() == program.digest
    feed = np.random.default_rng(1).standard_normal((1, 1, 8, 8)).astype(np.float32)
    outputs, counters = compiler.simulate(data, {"image": feed})
    assert counters.to_json() == program.resources
    assert (counters.cycles, counters.interval) == (program.latency_cycles, program.interval_cycles)
    assert program.outputs == [{"name": "probabilities", "dtype": "float32", "shape": [1, 10]}]
    assert outputs["probabilities"].shape == (1, 10)
    assert program.bounds["latency"]["bound"] <= program.latency_cycles


def test_every_artefact_can_be_read_back(cast: Cast) -> None:
    program = compiled(cast, "digits-small")
    report = selectors.program_report(program)
    assert report["headline"]["digest"] == program.digest
    assert report["resources"] == program.resources
    assert len(selectors.program_trace(program)["traceEvents"]) > 0
    assert "RECV" in selectors.program_disassembly(program).upper()


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_the_graph_as_text_compiles_to_the_same_program(
    precision: str, cast: Cast, as_user: AsUser, tmp_path: Path
) -> None:
    program = compiled(cast, "digits-batch", dims={"batch": [2]}, precision=precision)
    client, path = as_user(cast.engineer), tmp_path / "model.takt.txt"
    answer = client.get(f"/programs/{program.pk}/download/graph.takt.txt")
    assert answer["Content-Disposition"] == f'attachment; filename="{program.digest[:12]}-graph.takt.txt"'
    path.write_bytes(b"".join(answer))
    assert path.read_bytes() == b"".join(client.get(f"/api/v1/programs/{program.pk}/graph-text"))
    ranges = None
    if precision == "int8":
        ranges = compiler.Calibration.from_json(selectors.program_ranges(program))
    again = compiler.compile(compiler.load(path), program.target, precision, ranges)
    assert again.to_bytes() == selectors.program_bytes(program)


def test_a_program_without_a_text_of_its_graph_offers_none(cast: Cast, as_user: AsUser) -> None:
    program, client = compiled(cast, "digits-small"), as_user(cast.engineer)
    link = f"/programs/{program.pk}/download/graph.takt.txt"
    assert link in client.get(f"/programs/{program.pk}").content.decode()
    default_storage.delete(f"{program.binary_key.rpartition('/')[0]}/{selectors.GRAPH}")
    assert link not in client.get(f"/programs/{program.pk}").content.decode()
    assert client.get(link).status_code == 404
    assert client.get(f"/api/v1/programs/{program.pk}/graph-text").status_code == 404


def test_every_stage_is_stored_with_its_time(cast: Cast) -> None:
    job = run(ask(cast, sample_of(cast, "digits-small")))
    (bucket,) = job.stages
    assert [row["name"] for row in bucket["stages"]] == [name for name in stages.STAGES if name != "calibrate"]
    assert {row["state"] for row in bucket["stages"]} == {"done"}
    assert all(float(row["seconds"]) >= 0 for row in bucket["stages"])
    assert sum(float(row["seconds"]) for row in bucket["stages"]) > 0


def test_buckets_give_a_program_each_from_one_job(cast: Cast) -> None:
    job = run_remembered(ask(cast, sample_of(cast, "digits-batch"), dims={"batch": [2, 1, 2]}))
    programs = selectors.programs_of_job(job)
    assert [program.dims for program in programs] == [{"batch": 1}, {"batch": 2}]
    assert programs[0].operations * 2 == programs[1].operations


def test_compiling_again_finds_the_same_program(cast: Cast) -> None:
    first = compiled(cast, "digits-small")
    files = sorted(Path(settings.MEDIA_ROOT).rglob("program.bin"))
    assert compiled(cast, "digits-small") == first
    assert sorted(Path(settings.MEDIA_ROOT).rglob("program.bin")) == files, "no second copy stays"


def test_compile_again_and_compare_says_that_the_bytes_are_equal(cast: Cast) -> None:
    program = compiled(cast, "digits-small")
    job = run(services.job_compare(program=program, actor=cast.engineer, now=NOW))
    assert job.state == CompileJob.State.DONE
    assert job.comparison == {
        "equal": True,
        "digest": program.digest,
        "expected": program.digest,
        "compiler_version": program.compiler_version,
    }
    assert Program.objects.count() == 1


def test_other_bytes_for_the_same_inputs_stop_the_job(cast: Cast) -> None:
    program = compiled(cast, "digits-small")
    Program.objects.filter(pk=program.pk).update(digest="0" * 64)
    job = run_remembered(ask(cast, program.model_version))
    assert job.state == CompileJob.State.FAILED
    assert job.error["kind"] == "not-deterministic"
    compared = run_remembered(services.job_compare(program=Program.objects.get(), actor=cast.engineer, now=NOW))
    assert compared.comparison["equal"] is False


@pytest.mark.parametrize("small", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_what_does_not_fit_is_said_in_bytes(cast: Cast, small: bool) -> None:
    """On a processor of one's own with four lines of memory, and on the shipped one."""
    if small:
        data = own_file().replace(b"bytes = { value = 230_686_720,", b"bytes = { value = 1_280,")
        assert data != own_file()
        services.processor_add(organisation=cast.organisation, data=data, actor=cast.engineer, now=NOW)
        job = run(ask(cast, sample_of(cast, "digits-small"), target="mine"))
    else:
        job = run(ask(cast, version_of(cast, models.too_large_for_a_processor())))
    assert job.state == CompileJob.State.FAILED
    assert job.error["kind"] == "does-not-fit"
    assert job.error["asked"] - job.error["available"] == job.error["gap"] > 0
    assert not Program.objects.exists()


def test_a_model_error_is_kept_with_every_problem(cast: Cast) -> None:
    version = version_of(cast, models.impossible_at_some_lengths())
    job = run(ask(cast, version, dims={"n": 5}))
    assert job.state == CompileJob.State.FAILED
    assert job.error["kind"] == "model"
    assert job.error["problems"][0]["message"]
    assert run(ask(cast, version, dims={"n": 3})).state == CompileJob.State.DONE


@pytest.mark.parametrize(
    ("dims", "words"),
    [
        ({}, "Enter a size for the dimension 'batch'"),
        ({"batch": 0}, "from 1 to"),
        ({"batch": [1, -3]}, "from 1 to"),
        ({"batch": []}, "from 1 to"),
        ({"batch": 1, "width": 2}, "no variable dimension 'width'"),
        ({"batch": list(range(1, 20))}, "At most 8"),
    ],
)
def test_each_wrong_length_is_named(cast: Cast, dims: dict[str, Any], words: str) -> None:
    with pytest.raises(Problem) as refused:
        ask(cast, sample_of(cast, "digits-batch"), dims=dims)
    assert refused.value.status == 422
    assert words in refused.value.detail


def test_an_unknown_target_is_refused_with_the_known_ones(cast: Cast) -> None:
    with pytest.raises(Problem, match="lpu, lpu2"):
        ask(cast, sample_of(cast, "digits-small"), target="abacus")


def test_a_second_delivery_of_a_running_job_does_nothing(cast: Cast) -> None:
    job = ask(cast, sample_of(cast, "digits-small"))
    epoch = running._claim(job.pk, NOW)
    assert epoch == 1
    assert running._claim(job.pk, NOW + running.SILENT_AFTER - timedelta(seconds=1)) is None
    assert running._claim(job.pk, NOW + running.SILENT_AFTER) == 2


def test_a_worker_that_was_thought_dead_can_write_nothing(cast: Cast) -> None:
    job = ask(cast, sample_of(cast, "digits-small"))
    old = running._claim(job.pk, NOW)
    assert old is not None
    running._claim(job.pk, NOW + running.SILENT_AFTER)
    with pytest.raises(running.Fenced):
        running._write(job, old, stage="binary")
    running._finish(job, old, CompileJob.State.FAILED, NOW, {"kind": "late"})
    job.refresh_from_db()
    assert (job.state, job.stage, job.error) == (CompileJob.State.RUNNING, "", None)


def test_the_sweep_hands_out_what_was_lost_and_nothing_else(
    cast: Cast, django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    version = sample_of(cast, "digits-small")
    lost, alive, waiting, done = (ask(cast, version) for _ in range(4))
    running._claim(lost.pk, NOW)
    running._claim(alive.pk, NOW + timedelta(seconds=10))
    CompileJob.objects.filter(pk=done.pk).update(state=CompileJob.State.DONE)
    sent: list[Any] = []
    with django_capture_on_commit_callbacks(execute=True):
        found = services.jobs_sweep(now=NOW + running.SILENT_AFTER, send=sent.append)
    assert found == sent == [lost.pk]
    lost.refresh_from_db()
    assert lost.state == CompileJob.State.QUEUED
    later = NOW + running.WAITING_AFTER + running.SILENT_AFTER
    assert set(services.jobs_sweep(now=later, send=sent.append)) == {lost.pk, alive.pk, waiting.pk}


def test_a_job_that_kills_its_workers_ends_after_three_attempts(cast: Cast) -> None:
    job = ask(cast, sample_of(cast, "digits-small"))
    at = NOW
    for epoch in (1, 2, 3):
        assert running._claim(job.pk, at) == epoch
        at += running.SILENT_AFTER
    assert running._claim(job.pk, at) is None
    job.refresh_from_db()
    assert (job.state, job.error["kind"]) == (CompileJob.State.FAILED, "interrupted")
    again = services.job_retry(job=job, actor=cast.engineer, now=NOW)
    assert run_remembered(again).state == CompileJob.State.DONE


def test_cancelling_stops_a_running_job_at_its_next_beat(cast: Cast) -> None:
    version = sample_of(cast, "digits-batch")
    job = ask(cast, version, dims={"batch": [1, 2, 3]})

    class Cancels(Clock):
        """Presses cancel when the first program has been kept."""

        def __call__(self) -> Any:
            if Program.objects.exists():
                services.job_cancel(job=job, actor=cast.engineer, now=NOW)
            return super().__call__()

    run(job, Cancels())
    assert job.state == CompileJob.State.CANCELLED
    assert Program.objects.count() < 3
    kept = set(Program.objects.values_list("digest", flat=True))
    services.job_retry(job=job, actor=cast.engineer, now=NOW)
    assert run_remembered(job).state == CompileJob.State.DONE
    assert kept < set(Program.objects.values_list("digest", flat=True))
    assert len(selectors.programs_of_job(job)) == 3


def test_a_model_that_was_deleted_ends_its_compiles_in_words(cast: Cast) -> None:
    from apps.registry.services import version_delete

    job = ask(cast, sample_of(cast, "digits-small"))
    version_delete(version=job.model_version, actor=cast.engineer, now=NOW)
    assert run(job).error["kind"] == "deleted"


def test_the_pages_show_progress_result_and_error(cast: Cast, as_user: AsUser) -> None:
    client = as_user(cast.engineer)
    version = sample_of(cast, "digits-batch")
    page = client.get(f"/versions/{version.pk}").content.decode()
    assert "1 input dimension is variable" in page
    assert "batch (input image)" in page
    wrong = client.post(f"/versions/{version.pk}", {"targets": ["lpu"], "precision": "float32", "dim-batch": "many"})
    assert wrong.status_code == 422
    assert "Enter whole numbers from 1" in wrong.content.decode()
    asked = client.post(f"/versions/{version.pk}", {"targets": ["lpu"], "precision": "float32", "dim-batch": "1, 2"})
    job = CompileJob.objects.get()
    assert (asked.status_code, asked["Location"]) == (302, f"/compiles/requests/{job.request_id}")
    assert "every 1s" in client.get(f"/compiles/{job.pk}").content.decode()
    run_remembered(job)
    part = client.get(f"/compiles/{job.pk}", headers={"HX-Request": "true"}).content.decode()
    assert "every 1s" not in part
    assert part.count("Open the report") == 2
    shown = client.get(f"/versions/{version.pk}").content.decode()
    assert all(program.digest[:8] in shown for program in Program.objects.all())


def test_the_api_walks_from_version_to_binary(cast: Cast, as_user: AsUser) -> None:
    client, version = as_user(cast.engineer), sample_of(cast, "digits-small")
    body = {"version_id": str(version.pk), "target": "lpu2"}
    asked = client.post("/api/v1/compiles", body, content_type="application/json")
    assert (asked.status_code, asked.json()["state"]) == (201, "queued")
    run_remembered(CompileJob.objects.get(pk=asked.json()["id"]))
    job = client.get(f"/api/v1/compiles/{asked.json()['id']}").json()
    assert job["state"] == "done"
    pk = job["program_ids"][0]
    program = client.get(f"/api/v1/programs/{pk}").json()
    binary = b"".join(client.get(f"/api/v1/programs/{pk}/binary").streaming_content)  # type: ignore[attr-defined]
    assert hashlib.sha256(binary).hexdigest() == program["digest"]
    assert client.get(f"/api/v1/programs/{pk}/report").json()["headline"]["target"] == "lpu2"
    assert client.get(f"/api/v1/programs/{pk}/disassembly").status_code == 200
    missing = client.post("/api/v1/compiles", {**body, "dims": {"x": 1}}, content_type="application/json")
    assert (missing.status_code, missing["Content-Type"]) == (422, "application/problem+json")
