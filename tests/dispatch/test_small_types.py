"""Models of bfloat16, float8 and 4 bits: uploaded, checked, compiled, quoted, run as a job and billed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from django.utils import timezone
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator

from apps.compilation.models import CompileJob, Program
from apps.compilation.selectors import program_report
from apps.compilation.services import job_create as compile_job_create
from apps.dispatch.fleet import edits, fleet_edit
from apps.dispatch.models import JobState
from apps.dispatch.services import job_create
from apps.fleet.models import Pool
from apps.ledger.models import UsageRow
from compiler import targets
from tests.cast import Cast
from tests.compilation.helpers import run_remembered
from tests.compiler.frontend.test_stored import E4M3, I4, layer_of_bfloat16, layer_of_codes
from tests.dispatch.real import processors_align
from tests.dispatch.scene import Scene
from tests.dispatch.test_execution import execute, outputs_of
from tests.registry.helpers import version_of
from tests.sales.market import open_market

BRAIN = (
    targets.text("lpu")
    .replace('name = "lpu"', 'name = "brain"', 1)
    .replace("[matrix.tiles]\n", '[matrix.tiles]\nbf16 = { value = [320, 160], source = "chosen: as float16" }\n', 1)
)
ITEMS = np.random.default_rng(5).standard_normal((3, 4, 24)).astype(np.float32)

MODELS: dict[str, Callable[[], ModelProto]] = {
    "bfloat16": lambda: layer_of_bfloat16(np.random.default_rng(1)),
    "float8": lambda: layer_of_codes(np.random.default_rng(2), E4M3),
    "int4": lambda: layer_of_codes(np.random.default_rng(3), I4),
}


@pytest.fixture
def present(transactional_db: None, cast: Cast) -> Scene:
    return Scene(open_market(change=with_bfloat16), cast, timezone.now())


def compiled(scene: Scene, name: str, target: str, precision: str) -> CompileJob:
    version = version_of(scene.cast, MODELS[name]().SerializeToString(), name)
    job = compile_job_create(
        version=version, target=target, precision=precision, actor=scene.cast.engineer, now=scene.now
    )
    return run_remembered(job, clock=lambda: scene.now)


def sold_and_run(scene: Scene, program: Program, pool: Pool) -> np.ndarray:
    """The outputs of a job under a contract, which is billed by the counts that were compiled."""
    contract = scene.contract((program, 3), pool=pool)
    job = job_create(contract=contract, arrays={"x": ITEMS}, actor=scene.cast.engineer, now=scene.now)
    assert execute(job) == [True]
    assert job.state == JobState.DONE, job.problem
    row = UsageRow.objects.get(contract_id=contract.pk)
    assert row.operations == 3 * program.operations
    assert row.amount == contract.net
    return outputs_of(job)["y"]


def expected(name: str) -> np.ndarray:
    made = MODELS[name]()
    kind = np.dtype("bfloat16" if name == "bfloat16" else "float32")
    reference: Any = ReferenceEvaluator(made)
    return np.stack([reference.run(None, {"x": item.astype(kind)})[0] for item in ITEMS]).astype(np.float32)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_a_small_type_is_uploaded_reported_quoted_run_and_billed(present: Scene, name: str) -> None:
    processors_align(present)
    job = compiled(present, name, "lpu", "float32")
    assert job.state == CompileJob.State.DONE, job.error
    program = job.programs.select_related("model_version__model").get()
    assert program_report(program)["headline"]["exact"]
    found = sold_and_run(present, program, present.market.lpu)
    assert found.dtype == np.float32  # files hold small types widened
    np.testing.assert_allclose(found, expected(name), rtol=2**-5, atol=2**-5)


def test_bfloat16_is_refused_where_no_plane_multiplies_it_and_sold_where_one_does(present: Scene) -> None:
    processors_align(present)
    refused = compiled(present, "bfloat16", "lpu", "bfloat16")
    assert refused.state == CompileJob.State.FAILED
    assert refused.error is not None
    assert "lpu has no planes for bfloat16" in refused.error["message"]
    fleet_edit(edit=edits.processor_set("brain", BRAIN), actor=present.cast.admin, now=present.now)
    facts = {"site": "here", "processor": "brain", "devices": 1}
    fleet_edit(edit=edits.pool_set("brain-e", facts), actor=present.cast.admin, now=present.now)
    job = compiled(present, "bfloat16", "brain", "bfloat16")
    assert job.state == CompileJob.State.DONE, job.error
    program = job.programs.select_related("model_version__model").get()
    assert program.precision == "bfloat16"
    present.now = timezone.now()
    found = sold_and_run(present, program, Pool.objects.get(slug="brain-e"))
    np.testing.assert_allclose(found, expected("bfloat16"), rtol=2**-5, atol=2**-5)


def with_bfloat16(book: dict[str, Any]) -> None:
    """A price of bfloat16 on processors of the class `lpu`, as high as that of float16."""
    for part in (book["prices"], book["minimum_operations_per_cycle"]):
        if isinstance(part["lpu"], dict):
            part["lpu"]["bfloat16"] = part["lpu"]["float16"]
