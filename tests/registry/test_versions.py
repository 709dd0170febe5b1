"""Versions and evaluations: samples by one click, deletion, and documents that are believed only as far as they agree."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.registry import selectors, services
from apps.registry.models import ModelFamily, ModelVersion
from tests.cast import Cast
from tests.registry import models
from tests.registry.helpers import NOW, nothing_is_left, stored_files, version_of

AsUser = Callable[[User], Client]


def sample_of(cast: Cast, slug: str) -> ModelVersion:
    return services.sample_add(organisation=cast.organisation, actor=cast.engineer, slug=slug, now=NOW)


def test_a_sample_comes_with_its_evaluation_and_twice_is_once(cast: Cast) -> None:
    first, second = sample_of(cast, "digits-small"), sample_of(cast, "digits-small")
    assert first == second
    evaluation = selectors.evaluation_of(first)
    assert evaluation is not None
    assert (evaluation.correct, evaluation.total, evaluation.lower_bound) == (583, 600, Decimal("0.957802"))


def test_models_evaluated_on_the_same_items_are_alternatives(cast: Cast) -> None:
    for slug in ("digits-large", "digits-small", "digits-batch"):
        sample_of(cast, slug)
    family = ModelFamily.objects.get()
    names = [evaluation.model_version.model.name for evaluation in selectors.family_evaluations(family.pk)]
    assert names == ["digits-small", "digits-batch", "digits-large"], "least accurate first"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(model_sha256="0" * 64), "digest"),
        (lambda d: d.update(confidence_output="nothing"), "no output named"),
        (lambda d: d["splits"]["evaluate"].update(correct=600), "not the number of items"),
        (lambda d: d["splits"]["evaluate"]["labels"].pop(), "must each have"),
        (lambda d: d["splits"]["choose"]["confidence"].__setitem__(0, "1.5"), "between 0 and 1"),
        (lambda d: d["splits"].update(choose=copy.deepcopy(d["splits"]["evaluate"])), "are the same data"),
        (lambda d: d.pop("splits"), "splits"),
    ],
)
def test_a_document_that_does_not_agree_with_itself_is_refused(
    cast: Cast, change: Callable[[dict[str, object]], None], words: str
) -> None:
    version = sample_of(cast, "digits-small")
    document = selectors.SAMPLES[0].evaluation()
    change(document)
    with pytest.raises(Problem) as refused:
        services.evaluation_record(version=version, document=document, actor=cast.engineer, now=NOW)
    assert refused.value.status == 422
    assert words in refused.value.detail


def test_the_bound_is_computed_here_and_not_taken_from_the_document(cast: Cast) -> None:
    version, document = sample_of(cast, "digits-small"), selectors.SAMPLES[0].evaluation()
    document["lower_bound_95"] = "0.999999"
    evaluation = services.evaluation_record(version=version, document=document, actor=cast.engineer, now=NOW)
    assert evaluation.lower_bound == Decimal("0.957802")


def test_an_evaluation_arrives_by_page_and_by_api(cast: Cast, as_user: AsUser) -> None:
    client, version = as_user(cast.engineer), version_of(cast, models.sample("digits-small"))
    document = selectors.SAMPLES[0].evaluation()
    answer = client.put(f"/api/v1/versions/{version.pk}/evaluation", document, content_type="application/json")
    assert (answer.status_code, answer.json()["lower_bound"]) == (200, "0.957802")
    version.evaluations.all().delete()
    path = selectors.SAMPLES_FOLDER / "digits-small.evaluation.json"
    file = SimpleUploadedFile("e.json", path.read_bytes())
    assert client.post(f"/versions/{version.pk}/evaluation", {"file": file}).status_code == 302
    assert version.evaluations.count() == 1


def test_deleting_removes_the_file_and_the_row(
    cast: Cast, as_user: AsUser, django_capture_on_commit_callbacks: Callable[..., object]
) -> None:
    version = version_of(cast, models.small())
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[attr-defined]
        assert as_user(cast.engineer).post(f"/versions/{version.pk}/delete").status_code == 302
    assert not ModelVersion.objects.exists()
    assert stored_files() == []


def test_a_file_that_somebody_needs_is_not_deleted(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    version = version_of(cast, models.small())
    monkeypatch.setattr(services.versions, "KEEPERS", [lambda row: f"{row} is under contract."])
    with pytest.raises(Problem, match="is under contract"):
        services.version_delete(version=version, actor=cast.engineer, now=NOW)
    assert selectors.modelversion_bytes(version) == models.small()


def test_the_list_shows_models_that_have_a_file(cast: Cast, as_user: AsUser) -> None:
    client = as_user(cast.viewer)
    assert "No models yet" in client.get("/models").content.decode()
    sample_of(cast, "digits-large")
    page = client.get("/models").content.decode()
    assert "digits-large" in page
    assert "98.7" in page
    assert "No model matches" in client.get("/models?q=zebra").content.decode()


def test_the_list_asks_the_database_the_same_number_of_questions_for_more_models(
    cast: Cast, as_user: AsUser, django_assert_max_num_queries: Callable[[int], object]
) -> None:
    client = as_user(cast.viewer)
    for seed in range(4):
        version_of(cast, models.small(seed), name=f"net-{seed}")
    with django_assert_max_num_queries(14):  # type: ignore[attr-defined]
        client.get("/models")


def test_a_strangers_bytes_are_not_found(cast: Cast) -> None:
    version = version_of(cast, models.small())
    assert selectors.version_of_digest(organisation=cast.organisation, sha256=version.sha256) == version
    assert selectors.version_of_digest(organisation=cast.stranger_organisation, sha256=version.sha256) is None


def test_an_unknown_sample_is_refused(cast: Cast) -> None:
    with pytest.raises(Problem, match="digits-small"):
        sample_of(cast, "nothing")
    assert nothing_is_left()


def test_the_sweep_runs_as_a_task(cast: Cast) -> None:
    from apps.registry.tasks import uploads_sweep

    past = timezone.now() - timedelta(days=2)
    services.upload_open(organisation=cast.organisation, actor=cast.engineer, filename="a", size=5, now=past)
    assert uploads_sweep() == 1
