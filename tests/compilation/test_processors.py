"""Processors of one's own: a file is enough to compile, execute, report and compare (T7)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.compilation import selectors, services
from apps.compilation.models import CompileJob, OwnProcessor
from apps.pages.report import compare
from compiler import targets
from tests.cast import Cast
from tests.compilation.helpers import NOW, ask, run_remembered, sample_of
from tests.compilation.tenancy import own_file

AsUser = Callable[[User], Client]


def add(cast: Cast, data: bytes) -> OwnProcessor:
    return services.processor_add(organisation=cast.organisation, data=data, actor=cast.engineer, now=NOW)


@pytest.mark.django_db
def test_all_faults_of_a_file_are_shown(cast: Cast, as_user: AsUser) -> None:
    text = own_file().decode().replace("lanes = {", "lames = {").replace("[clock]", "colour = 3\n[clock]")
    client = as_user(cast.engineer)
    refused = client.post("/processors", {"file": SimpleUploadedFile("chip.toml", text.encode())})
    shown = refused.content.decode()
    assert refused.status_code == 422
    assert "target mine: 2 faults." in shown
    assert "vector.lanes is missing (there is a vector.lames)" in shown
    assert "there is no setting" in shown


def test_a_model_is_compiled_for_and_executed_by_ones_own_description(cast: Cast) -> None:
    slow = own_file().replace(b"latency = { value = 40,", b"latency = { value = 400,")
    add(cast, slow)
    version = sample_of(cast, "digits-small")
    own, shipped = (run_remembered(ask(cast, version, target=name)) for name in ("mine", "lpu"))
    assert own.state == CompileJob.State.DONE, own.error
    mine, theirs = (selectors.programs_of_job(job)[0] for job in (own, shipped))
    assert mine.target_digest == targets.parse(slow.decode()).digest
    assert mine.latency_cycles > theirs.latency_cycles
    assert mine.operations == theirs.operations
    assert compare.share_of_peak(mine) is not None
    services.processor_remove(processor=OwnProcessor.objects.get(), actor=cast.engineer, now=NOW)
    assert compare.share_of_peak(mine) is None


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("data", "says"),
    [
        (targets.text("lpu").encode(), "ships with the compiler"),
        (own_file().replace(b"hz = { value = 900_000_000,", b"hz = { value = -1,"), "clock.hz"),
        (b"name = 3 = 4", "TOML"),
        (b"\xff\xfe", "UTF-8"),
        (b"", "version"),
    ],
)
def test_a_file_that_describes_no_processor_is_refused_with_what_to_change(cast: Cast, data: bytes, says: str) -> None:
    with pytest.raises(Problem, match=says) as refusal:
        add(cast, data)
    assert refusal.value.status == 422
    assert not OwnProcessor.objects.exists()


@pytest.mark.django_db
def test_the_page_keeps_a_file_and_describes_it(cast: Cast, as_user: AsUser) -> None:
    client = as_user(cast.engineer)
    answer = client.post("/processors", {"file": SimpleUploadedFile("mine.toml", own_file())})
    assert answer.status_code == 302
    page = client.get(answer["Location"]).content.decode()
    assert "Matrix planes" in page
    assert "mine" in client.get("/processors").content.decode()
    refused = client.post("/processors", {"file": SimpleUploadedFile("lpu.toml", targets.text("lpu").encode())})
    assert refused.status_code == 422
    assert "ships with the compiler" in refused.content.decode()
    version = sample_of(cast, "digits-small")
    assert 'value="mine"' in client.get(f"/versions/{version.pk}").content.decode()


@pytest.mark.django_db
def test_nobody_compiles_for_a_strangers_processor(cast: Cast) -> None:
    services.processor_add(organisation=cast.stranger_organisation, data=own_file(), actor=cast.stranger, now=NOW)
    with pytest.raises(Problem, match="Choose one of"):
        ask(cast, sample_of(cast, "digits-small"), target="mine")
