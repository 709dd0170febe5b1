"""Saved filters: named, picked, replaced and deleted, and seen by nobody else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import Membership, User
from apps.accounts.problems import Problem
from apps.accounts.roles import Role
from apps.pages import saved_filters
from apps.pages.models import SavedFilter
from tests.cast import Cast
from tests.registry.tenancy import bare_version

AsUser = Callable[[User], Client]
MODELS = "registry:model_list"
pytestmark = pytest.mark.django_db


def save(cast: Cast, user: User | None = None, **values: str) -> SavedFilter:
    asked = {"page": MODELS, "name": "mine", "query": "q=digits&project=Default", **values}
    return saved_filters.filter_save(
        organisation=cast.organisation, user=user or cast.owner, now=timezone.now(), **asked
    )


def test_a_filter_is_saved_picked_and_deleted(cast: Cast, as_user: AsUser) -> None:
    bare_version(cast)
    client = as_user(cast.owner)
    page = client.get("/models?q=digits").content.decode()
    assert "Save this filter" in page
    answer = client.post("/filters", {"page": MODELS, "name": "Digits", "query": "q=digits"})
    assert answer["Location"] == "/models?q=digits"
    page = client.get("/models").content.decode()
    assert 'href="/models?q=digits"' in page
    assert "Save this filter" not in page
    saved = SavedFilter.objects.get()
    assert client.post(f"/filters/{saved.pk}/delete")["Location"] == "/models"
    assert not SavedFilter.objects.exists()


def test_the_same_name_replaces_the_filter(cast: Cast) -> None:
    save(cast)
    save(cast, query="q=other")
    assert SavedFilter.objects.get().query == "q=other"


def test_only_the_parameters_of_the_list_are_saved(cast: Cast) -> None:
    assert save(cast, query="cursor=abc&q=a&q=b&next=//evil").query == "q=b"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"name": ""}, "Give the filter a name."),
        ({"name": "x" * 10_000}, "at most 80 characters"),
        ({"name": "a\x00b"}, "without control characters"),
        ({"query": ""}, "Choose a filter first"),
        ({"query": "q=%00"}, "Choose a filter first"),
        ({"query": "q=" + "x" * 10_000}, "Choose a filter first"),
        ({"query": "q=" + "%F0%9F%98%80" * 100}, "Shorten the filter"),
        ({"page": "accounts:audit"}, "no filters to save"),
    ],
)
def test_nonsense_is_refused_in_words(cast: Cast, values: dict[str, str], said: str) -> None:
    with pytest.raises(Problem) as refused:
        save(cast, **values)
    assert said in refused.value.detail
    assert not SavedFilter.objects.exists()


def test_a_refused_name_stays_in_its_field(cast: Cast, as_user: AsUser) -> None:
    name = "x" * 300
    answer = as_user(cast.owner).post("/filters", {"page": MODELS, "name": name, "query": "q=a"})
    assert answer.status_code == 422
    assert f'value="{name}"' in answer.content.decode()
    assert "at most 80 characters" in answer.content.decode()


def test_a_list_has_at_most_so_many_filters(cast: Cast) -> None:
    for number in range(saved_filters.PER_PAGE):
        save(cast, name=f"filter {number}")
    with pytest.raises(Problem, match="Delete one first"):
        save(cast, name="one more")
    save(cast, name="filter 0")  # one that is replaced


def test_a_filter_belongs_to_one_person_in_one_organisation(cast: Cast, as_user: AsUser) -> None:
    bare_version(cast)
    mine = save(cast, query="q=secret")
    for other in (cast.engineer, cast.stranger):
        assert as_user(other).post(f"/filters/{mine.pk}/delete").status_code == 404
        assert "q=secret" not in as_user(other).get("/models").content.decode()
    Membership.objects.create(user=cast.owner, organisation=cast.stranger_organisation, role=Role.OWNER)
    client = as_user(cast.owner)
    client.post(reverse("accounts:organisation_switch", args=[cast.stranger_organisation.pk]))
    assert "q=secret" not in client.get("/models?q=a").content.decode()
    assert client.post(f"/filters/{mine.pk}/delete").status_code == 404
    assert SavedFilter.objects.count() == 1


@pytest.mark.parametrize("page", saved_filters.PAGES)
def test_every_list_that_takes_part_shows_the_form(cast: Cast, as_user: AsUser, page: str) -> None:
    name = saved_filters.PAGES[page][0]
    value = "open" if page == "sales:quote_list" else "active" if page == "sales:contract_list" else "done"
    shown = as_user(cast.owner).get(reverse(page), {name: value}).content.decode()
    assert "Save this filter" in shown
    assert f'value="{page}"' in shown
