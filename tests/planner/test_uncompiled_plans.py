"""Plans of models that are not compiled, and what a plan is asked for in the wrong way."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.compilation.models import CompileJob
from apps.fleet.seed import fleet_seed
from apps.planner import services
from apps.planner.models import Plan
from apps.pricing.seed import seed as pricing_seed
from apps.registry.models import ModelVersion
from tests.cast import Cast
from tests.compilation.helpers import NOW, run_remembered, sample_of
from tests.planner.test_plans import plan, row_of

AsUser = Callable[[User], Client]


def test_what_is_not_compiled_yet_is_named_and_compiled_on_request(cast: Cast) -> None:
    fleet_seed(now=NOW)
    pricing_seed(now=NOW, organisation=cast.organisation, owner=cast.owner, admin=cast.admin)
    large = sample_of(cast, "digits-large")
    sample_of(cast, "digits-batch")
    found = plan(cast, large)
    assert found.chosen is None
    assert all("is not compiled for" in row["reasons"][0] for row in found.candidates)
    jobs = services.alternatives_compile(version=large, dims=None, actor=cast.engineer, now=NOW)
    assert {(job.model_version.model.name, job.target, tuple(job.dims.items())) for job in jobs} == {
        ("digits-large", "lpu", ()),
        ("digits-large", "lpu2", ()),
        ("digits-batch", "lpu", (("batch", 1),)),
        ("digits-batch", "lpu2", (("batch", 1),)),
    }
    for job in jobs:
        assert run_remembered(job).state == CompileJob.State.DONE
    assert plan(cast, large).chosen["title"] == "digits-batch"
    assert services.alternatives_compile(version=large, dims=None, actor=cast.engineer, now=NOW) == []


def test_without_a_price_book_the_form_says_so(cast: Cast, as_user: AsUser) -> None:
    version = sample_of(cast, "digits-small")
    page = as_user(cast.engineer).get(f"/plans/new?version={version.pk}")
    assert (page.status_code, "No price book is in force" in page.content.decode()) == (200, True)


def test_a_plan_made_while_programs_are_compiled_says_so(cast: Cast, as_user: AsUser) -> None:
    fleet_seed(now=NOW)
    pricing_seed(now=NOW, organisation=cast.organisation, owner=cast.owner, admin=cast.admin)
    version = sample_of(cast, "digits-large")
    assert services.alternatives_compile(version=version, dims=None, actor=cast.engineer, now=NOW)
    assert services.alternatives_compile(version=version, dims=None, actor=cast.engineer, now=NOW) == [], "once each"
    client = as_user(cast.engineer)
    assert "Compiles under way" in client.get(f"/plans/new?version={version.pk}").content.decode()
    found = plan(cast, version)
    waiting = row_of(found, "digits-large", "lpu-a")
    assert waiting["reasons"] == [
        "digits-large v1 is still being compiled for lpu. Plan again when the program is ready."
    ]
    page = client.get(f"/plans/{found.pk}").content.decode()
    assert "2 compiles were still under way when this plan was made." in page


NONSENSE = (
    ("items", "-5", "Enter a number of items from 1 to 1,000,000,000,000."),
    ("items", "1" + "0" * 17, "Enter a number of items from 1 to 1,000,000,000,000."),
    ("items", "a few", "Enter a whole number."),
    ("items", "", "This field is required."),
    ("accuracy", "0", "Enter a percentage above 0 and below 100"),
    ("accuracy", "100", "Enter a percentage above 0 and below 100"),
    ("latency", "0", "Enter a value above 0"),
    ("duration", "-1", "Enter a value above 0"),
    ("budget", "\N{FACE WITH TEARS OF JOY}", "Enter a number."),
    ("budget", "9" * 10_000, "Ensure that there are no more than"),
    ("until", "9999-12-31T23:59", "The year of the deadline must be from 1970 to 9000."),
    ("until", "0001-01-01T00:00", "The year of the deadline must be from 1970 to 9000."),
    ("until", "2026-01-01T00:00", "The deadline is in the past."),
    ("until", "tomorrow", "Enter a valid date/time."),
    ("klass", "golden", "Choose one of the listed classes."),
    ("objective", "beauty", "Select a valid choice."),
)


@pytest.fixture
def uncompiled(cast: Cast) -> ModelVersion:
    """Pools, a price book, and a model without programs."""
    fleet_seed(now=NOW)
    pricing_seed(now=NOW, organisation=cast.organisation, owner=cast.owner, admin=cast.admin)
    return sample_of(cast, "digits-small")


def test_nonsense_in_requirements_ends_in_a_sentence_beside_the_field(
    cast: Cast, as_user: AsUser, uncompiled: ModelVersion
) -> None:
    client = as_user(cast.engineer)
    body = {"version": str(uncompiled.pk), "items": "1000", "latency_unit": "1", "klass": "standard"}
    for field, value, said in NONSENSE:
        answer = client.post("/plans/new", {**body, field: value})
        page = answer.content.decode()
        assert (answer.status_code, said in page) == (422, True), (field, value[:20])
        assert said in page.partition(f'id="id_{field}_errors"')[2][:400], (field, value[:20])
    assert not Plan.objects.exists()


def test_digits_of_other_scripts_are_read_on_pages_and_over_the_api(
    cast: Cast, as_user: AsUser, uncompiled: ModelVersion
) -> None:
    client, version = as_user(cast.engineer), uncompiled
    digits = "\N{ARABIC-INDIC DIGIT FIVE}\N{FULLWIDTH DIGIT TWO}"
    body = {"version": str(version.pk), "items": digits, "latency_unit": "1", "klass": "standard"}
    assert client.post("/plans/new", body).status_code == 302
    asked = {"version_id": str(version.pk), "items": digits}
    made = client.post("/api/v1/plans", asked, content_type="application/json")
    assert (made.status_code, made.json()["requirements"]["items"]) == (201, 52)
    assert Plan.objects.filter(requirements__items=52).count() == 2
