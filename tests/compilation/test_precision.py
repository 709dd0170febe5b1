"""Narrow precisions through the product: examples in, a smaller program, its measured error, and the same bytes again."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

import compiler
from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.compilation import selectors, services
from apps.compilation.calibration import CalibrationError, OtherShape, Wanted, feeds_read
from apps.compilation.models import CompileJob, Program
from apps.fleet.seed import fleet_seed
from apps.registry.selectors import modelversion_bytes
from tests.cast import Cast
from tests.compilation.helpers import NOW, Clock, ask, compiled, run, run_remembered, sample_of

AsUser = Callable[[User], Client]
IMAGE = Wanted("float32", (1, 1, 8, 8))


def examples(count: int = 4, **arrays: Any) -> bytes:
    file = io.BytesIO()
    image = np.random.default_rng(7).uniform(0, 16, (count, 1, 8, 8)).astype(np.float32)
    np.savez(file, **(arrays or {"image": image}))
    return file.getvalue()


@pytest.mark.django_db
@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_a_narrow_program_is_smaller_and_says_what_it_loses(cast: Cast, precision: str) -> None:
    version = sample_of(cast, "digits-large")
    whole = selectors.programs_of_job(run_remembered(ask(cast, version)))[0]
    job = run_remembered(ask(cast, version, precision=precision, calibration=examples()))
    assert job.state == CompileJob.State.DONE, job.error
    narrow = selectors.programs_of_job(job)[0]
    assert narrow.resources["storage"]["weights"] < whole.resources["storage"]["weights"]
    assert narrow.operations == whole.operations or narrow.operations > 0
    assert (narrow.accuracy["calibration"], narrow.accuracy["feeds"]) == ("given feeds", 4)
    assert all(values["snr_db"] > 20 for values in narrow.accuracy["outputs"].values())
    assert whole.accuracy == {}
    assert "calibrate" in [row["name"] for row in job.stages[0]["stages"]]


@pytest.mark.django_db
def test_the_ranges_alone_give_the_same_bytes(cast: Cast) -> None:
    version = sample_of(cast, "digits-large")
    program = selectors.programs_of_job(run_remembered(ask(cast, version, precision="int8", calibration=examples())))[0]
    ranges = compiler.Calibration.from_json(selectors.program_ranges(program))
    again = compiler.compile(compiler.load(modelversion_bytes(version)), "lpu", "int8", ranges)
    assert isinstance(again, compiler.Program)
    assert again.to_bytes() == selectors.program_bytes(program)


@pytest.mark.django_db
def test_other_examples_make_another_program_and_the_same_ones_the_same(cast: Cast) -> None:
    version = sample_of(cast, "digits-small")
    made = [
        how(ask(cast, version, precision="int8", calibration=data))
        for how, data in (
            (run_remembered, examples(2)),
            (run, examples(2)),  # a second compile must give the same bytes
            (run_remembered, examples(3)),
            (run_remembered, None),
        )
    ]
    programs = [job.program_ids[0] for job in made]
    assert programs[0] == programs[1]
    assert len(set(programs)) == 3
    assert len({job.calibration_key for job in made}) == 3
    seeded = Program.objects.get(pk=programs[3])
    assert (seeded.accuracy["calibration"], seeded.calibration_digest) == ("seeded feeds", "")


@pytest.mark.django_db
def test_comparing_uses_the_examples_of_the_first_compile(cast: Cast) -> None:
    job = run_remembered(ask(cast, sample_of(cast, "digits-small"), precision="int8", calibration=examples(2)))
    program = selectors.programs_of_job(job)[0]
    compared = services.job_compare(program=program, actor=cast.engineer, now=NOW)
    services.job_run(job_id=compared.pk, clock=Clock())
    compared.refresh_from_db()
    assert compared.comparison is not None
    assert compared.comparison["equal"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"PK no archive", "not a .npz"),
        (examples(image=np.zeros((2, 3, 3), np.float32)), "must have the shape items × 1 × 1 × 8 × 8"),
        (examples(picture=np.zeros((2, 1, 8, 8), np.float32)), "no array 'image'"),
        (examples(image=np.full((2, 1, 8, 8), np.nan, np.float64)), "NaN, infinite or too large"),
    ],
)
def test_examples_that_cannot_be_used_are_refused_with_what_to_change(cast: Cast, data: bytes, says: str) -> None:
    job = run_remembered(ask(cast, sample_of(cast, "digits-small"), precision="int8", calibration=data))
    assert job.state == CompileJob.State.FAILED
    assert job.error is not None
    assert job.error["kind"] == "calibration"
    assert says in job.error["message"]


def test_a_leading_one_may_be_left_out_and_other_lengths_are_told_apart() -> None:
    feeds = feeds_read(examples(3), {"image": IMAGE})
    assert [feed["image"].shape for feed in feeds] == [(1, 1, 8, 8)] * 3
    with pytest.raises(OtherShape):
        feeds_read(examples(3), {"image": Wanted("float32", (1, 1, 9, 8))})
    with pytest.raises(CalibrationError, match="type int64"):
        feeds_read(examples(3), {"image": Wanted("int64", (1, 1, 8, 8))})
    with pytest.raises(CalibrationError, match="same number"):
        feeds_read(examples(a=np.zeros((2, 1)), b=np.zeros((3, 1))), {n: Wanted("float64", (1,)) for n in "ab"})


@pytest.mark.django_db
def test_the_form_asks_for_each_processor_in_each_precision(cast: Cast, as_user: AsUser) -> None:
    fleet_seed(now=NOW)
    version = sample_of(cast, "digits-small")
    client = as_user(cast.engineer)
    page = client.get(f"/versions/{version.pk}").content.decode()
    assert "compile only, not for sale" in page
    answer = client.post(
        f"/versions/{version.pk}",
        {
            "targets": ["lpu", "systolic"],
            "precision": ["float32", "int8"],
            "calibration": SimpleUploadedFile("examples.npz", examples(2)),
        },
    )
    assert answer.status_code == 302
    asked = {(job.target, job.precision, bool(job.calibration_key)) for job in CompileJob.objects.all()}
    assert asked == {
        ("lpu", "float32", False),
        ("lpu", "int8", True),
        ("systolic", "float32", False),
        ("systolic", "int8", True),
    }


@pytest.mark.django_db
def test_the_api_takes_examples_in_base64(cast: Cast, as_user: AsUser) -> None:
    version = sample_of(cast, "digits-small")
    body = {"version_id": str(version.pk), "target": "lpu", "precision": "int8"}
    client = as_user(cast.engineer)
    good = {**body, "calibration": base64.b64encode(examples(2)).decode()}
    answer = client.post(
        "/api/v1/compiles", json.dumps(good), content_type="application/json", headers={"Idempotency-Key": "a"}
    )
    assert answer.status_code == 201
    assert CompileJob.objects.get().calibration_digest
    bad = {**body, "calibration": "not base64"}
    answer = client.post(
        "/api/v1/compiles", json.dumps(bad), content_type="application/json", headers={"Idempotency-Key": "b"}
    )
    assert answer.status_code == 422


@pytest.mark.django_db
def test_a_calibration_file_has_a_limit(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.compilation.services.jobs.FILE_BYTES_MAX", 100)
    with pytest.raises(Problem, match="at most 100"):
        ask(cast, sample_of(cast, "digits-small"), precision="int8", calibration=examples())


@pytest.mark.django_db
def test_a_processor_that_no_pool_has_is_compiled_for(cast: Cast) -> None:
    program = compiled(cast, "digits-large", target="systolic", precision="int8")
    assert program.resources["io"]["external_in"] > 0
