"""A decoder with a context on the site: compiled by the form, priced by the token, run as a sequence."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from django.test import Client
from django.utils import timezone

from apps import figures
from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.cli.recompile import ModelFile, recompile
from apps.compilation.models import CompileJob, Program
from apps.dispatch import measurement, services
from apps.dispatch.models import JobState, Lease
from apps.registry.models import ModelVersion
from benchmarks.decoder import Reference
from tests.cast import Cast
from tests.compilation.helpers import run_remembered
from tests.compiler.flow.growing import VOCABULARY, growing_decoder
from tests.dispatch.real import processors_align
from tests.dispatch.scene import Scene
from tests.dispatch.test_execution import execute, outputs_of
from tests.registry.helpers import version_of
from tests.sales.market import open_market

AsUser = Callable[[User], Client]
CONTEXT, LONG = 12, 4
FORM = {
    "targets": ["lpu"],
    "precision": ["float32"],
    "dim-batch": "1",
    "dim-sequence": f"1, {LONG}",
    "dim-total": "",
    "dim-past": "",
    "context": str(CONTEXT),
}


@pytest.fixture
def present(transactional_db: None, cast: Cast) -> Scene:
    scene = Scene(open_market(), cast, timezone.now())
    processors_align(scene)
    return scene


@pytest.fixture
def version(present: Scene) -> ModelVersion:
    return version_of(present.cast, DECODER, "decoder")


DECODER = growing_decoder(positions="shape", longest=64)


def compiled(present: Scene, client: Client, version: ModelVersion) -> list[Program]:
    """The decode and the prefill program, asked for by the form."""
    answer = client.post(f"/versions/{version.pk}", FORM)
    assert answer.status_code == 302, re.sub(r"<[^>]+>", " ", answer.content.decode())
    job = run_remembered(CompileJob.objects.get(), clock=lambda: present.now)
    assert job.state == CompileJob.State.DONE, job.error
    return sorted(job.programs.all(), key=lambda one: one.dims["sequence"])


def test_a_decoder_shows_the_price_of_its_tokens_as_a_quote_has_it(
    present: Scene, as_user: AsUser, version: ModelVersion
) -> None:
    client = as_user(present.cast.engineer)
    decode, prefill = compiled(present, client, version)
    assert decode.sequence == {"kind": "decode", "tokens": 1, "context": CONTEXT}
    assert prefill.sequence == {"kind": "prefill", "tokens": LONG, "context": CONTEXT}
    for program in (decode, prefill):
        price = client.get(f"/api/v1/programs/{program.pk}/price").json()
        shown = {one["program_id"]: one for one in price["tokens"]}
        assert list(shown) == [str(decode.pk), str(prefill.pk)]
        for one, each in ((decode, 1), (prefill, LONG)):
            row = shown[str(one.pk)]
            assert (row["tokens_per_execution"], row["tokens"]) == (each, 1000 * each)
            assert Decimal(row["amount"]) == quoted(present, one, 1000)
        assert price["amount"] == shown[str(program.pk)]["amount"]
        page = re.sub(r"<[^>]+>|\s+", " ", client.get(f"/programs/{program.pk}").content.decode())
        assert "Price of a token" in page
        assert page.count("Decode token") + page.count("Prefill token") >= 3
        for one, each in ((decode, 1), (prefill, LONG)):
            told = figures.unit_price_format(quoted(present, one, 1000), "EUR", of=1000 * each, thing="token")
            assert re.sub(r"\s+", " ", " ".join(told)) in page
    assert "context 12" in client.get(f"/versions/{version.pk}").content.decode()


def quoted(present: Scene, program: Program, executions: int) -> Decimal:
    """The price of the line of a quote, before the quote is rounded."""
    contract = present.contract((program, executions))
    return Decimal(contract.terms["lines"][0]["rating"]["amount"])


def test_a_job_is_one_sequence_on_the_processor_and_equals_the_model(
    present: Scene, as_user: AsUser, version: ModelVersion
) -> None:
    decode, _ = compiled(present, as_user(present.cast.engineer), version)
    contract = present.contract((decode, 2 * CONTEXT))
    ids = np.random.default_rng(2).integers(0, VOCABULARY, (CONTEXT, 1, 1))
    job = services.job_create(contract=contract, arrays={"input_ids": ids}, actor=None, now=present.now)
    assert execute(job) == [True]
    assert job.state == JobState.DONE, job.problem
    assert Lease.objects.get(stage__job=job).count == CONTEXT
    reference = Reference(DECODER)
    expected = np.stack([reference.step({"input_ids": one}) for one in ids])
    np.testing.assert_allclose(outputs_of(job)["logits"], expected, atol=1e-4)
    longer = np.zeros((CONTEXT + 1, 1, 1), np.int64)
    with pytest.raises(Problem, match="one sequence, of at most 12 items"):
        services.job_create(contract=contract, arrays={"input_ids": longer}, actor=None, now=present.now)


def test_what_was_sold_is_compiled_again_with_its_context(
    present: Scene, as_user: AsUser, version: ModelVersion
) -> None:
    _, prefill = compiled(present, as_user(present.cast.engineer), version)
    line = present.contract((prefill, 3)).terms["lines"][0]
    assert line["program"]["options"] == {"context": CONTEXT}
    again = recompile(ModelFile("decoder.onnx", DECODER, version.sha256), line["program"])
    assert (again.digest, again.operations) == (prefill.digest, prefill.operations)


def test_a_host_pool_neither_measures_nor_sells_what_keeps_states(
    present: Scene, as_user: AsUser, version: ModelVersion
) -> None:
    decode, _ = compiled(present, as_user(present.cast.engineer), version)
    assert measurement.measurements_request_due(now=present.now) == 0
    with pytest.raises(Problem, match="keep its states on the processor"):
        present.contract((decode, 10), pool=present.market.host)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"context": "1"}, "greater than or equal to 2"),
        ({"context": "", "caches": "past_k0=present_k0", "dim-past": "3", "dim-total": "4"}, "named without a context"),
        ({"context": "", "dim-past": ""}, "Enter whole numbers from 1"),
        ({"caches": "past_k0"}, "Write one INPUT=OUTPUT on a line"),
        ({"states": "gone=logits"}, "The model has no input &#x27;gone&#x27; for a state"),
        ({"caches": "past_k0=present_k0\npast_k1=present_k0"}, "is named by two caches"),
        ({"bounds": "loop=many"}, "Write one LOOP=TRIPS on a line"),
        ({"constants": "sr=fast"}, "Write one INPUT=VALUE on a line"),
        ({"constants": "sr=1"}, "The model has no input &#x27;sr&#x27;"),
    ],
)
def test_an_option_that_cannot_be_is_refused_in_words(
    present: Scene, as_user: AsUser, version: ModelVersion, change: dict[str, Any], said: str
) -> None:
    answer = as_user(present.cast.engineer).post(f"/versions/{version.pk}", FORM | change)
    assert answer.status_code == 422
    assert said in answer.content.decode()
    assert not CompileJob.objects.exists()
