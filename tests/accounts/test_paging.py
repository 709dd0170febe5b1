"""A list is read by cursor from one end to the other and back, whatever its rows share, while rows come and go."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pytest
from django.test import Client, RequestFactory
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from apps.accounts.models import AuditEntry, Organisation, User
from apps.accounts.paging import Cursor, Place, page_of, part_of
from apps.accounts.roles import Scope
from apps.registry.models import Project
from tests.cast import Cast

Old = Cursor.Cursor
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
AsToken = Callable[..., Client]


def projects(seconds: list[int]) -> Organisation:
    """As many projects, made at these seconds."""
    organisation = Organisation.objects.create(name="Many", slug="many")
    Project.objects.bulk_create(
        Project(organisation=organisation, name=f"{number}", created_at=BEGIN + timedelta(seconds=second))
        for number, second in enumerate(seconds)
    )
    return organisation


class Walks(TestCase):
    """Properties of `part_of`, over lists in which many rows are of one instant."""

    @settings(max_examples=40, deadline=None)
    @given(st.lists(st.integers(0, 3), max_size=14), st.integers(1, 5), st.sampled_from(["-id", "id"]))
    def test_every_row_is_seen_once_there_and_back(self, seconds: list[int], size: int, then: str) -> None:
        rows, ordering = Project.objects.filter(organisation=projects(seconds)), ("-created_at", then)
        wanted = list(rows.order_by(*ordering))
        forth, place = [], None
        while True:
            part = part_of(rows, ordering=ordering, size=size, place=place)
            forth += part.rows
            assert (part.before is None) == (place is None)
            if part.after is None:
                break
            place = Place.read(part.after.text(), count=2)
        assert forth == wanted
        back = list(part.rows)
        while part.before is not None:
            part = part_of(rows, ordering=ordering, size=size, place=part.before)
            back = [*(one for one in part.rows if one not in back), *back]
        assert back == wanted
        assert part.rows == wanted[:size]  # the first page is a full one, from wherever one comes


@pytest.mark.django_db
def test_a_row_that_is_added_meanwhile_moves_nothing() -> None:
    organisation = projects([5, 4, 3, 2])
    rows, ordering = Project.objects.filter(organisation=organisation), ("-created_at", "-id")
    first = part_of(rows, ordering=ordering, size=2, place=None)
    Project.objects.create(organisation=organisation, name="newest", created_at=BEGIN + timedelta(seconds=9))
    second = part_of(rows, ordering=ordering, size=2, place=first.after)
    assert [one.name for one in [*first.rows, *second.rows]] == ["0", "1", "2", "3"]


@pytest.mark.django_db
@pytest.mark.parametrize("text", ["x", "%00", "bnVsbA==", "WzAsIDFd", "WzAsICJhIiwgImIiXQ==", "WzAsIG51bGwsIDFd"])
def test_a_page_whose_cursor_means_nothing_shows_the_first_rows(text: str) -> None:
    rows = Project.objects.filter(organisation=projects([1, 2, 3]))
    request = RequestFactory().get("/", {"cursor": text})
    page = page_of(request, rows, ordering=("-created_at", "-id"), size=2)
    assert [one.name for one in page] == ["2", "1"]
    assert page.previous is None


@pytest.mark.django_db
def test_an_address_keeps_its_other_parameters() -> None:
    rows = Project.objects.filter(organisation=projects([1, 2, 3]))
    request = RequestFactory().get("/", {"state": "active", "cursor": "x"})
    page = page_of(request, rows, ordering=("-created_at", "-id"), size=2)
    assert page.next is not None
    assert page.next.startswith("?state=active&cursor=")
    assert page.first == "?state=active"
    assert page.count == 3


def entries(organisation: Organisation, user: User, count: int) -> None:
    """As many lines of the audit log, of one instant."""
    AuditEntry.objects.bulk_create(
        AuditEntry(action="x", subject=f"{number}", actor=user, organisation=organisation, at=BEGIN)
        for number in range(count)
    )


def test_a_list_of_the_api_passes_more_than_a_hundred_rows_of_one_instant(cast: Cast, as_token: AsToken) -> None:
    client = as_token(cast.owner, cast.organisation, Scope.READ)
    entries(cast.organisation, cast.owner, 250)
    seen, address = set(), "/api/v1/audit?page_size=90"
    while address:
        answer = client.get(address).json()
        seen |= {one["id"] for one in answer["results"]}
        told = urlsplit(answer["next"] or "")
        address = f"{told.path}?{told.query}" if answer["next"] else ""
    assert len(seen) == AuditEntry.objects.filter(organisation=cast.organisation).count()


def test_a_cursor_of_the_release_before_is_still_understood(cast: Cast, as_token: AsToken) -> None:
    client = as_token(cast.owner, cast.organisation, Scope.READ)
    entries(cast.organisation, cast.owner, 5)
    newest = AuditEntry.objects.filter(organisation=cast.organisation).order_by("-id")
    answer = client.get("/api/v1/audit", {"cursor": Old(p=str(newest[1].pk)).encode_as_param(), "page_size": "2"})
    assert [one["id"] for one in answer.json()["results"]] == [newest[1].pk, newest[2].pk]


def test_a_cursor_that_means_nothing_is_refused_in_the_api(cast: Cast, as_token: AsToken) -> None:
    client = as_token(cast.owner, cast.organisation, Scope.READ)
    for text in ("x", "WzAsICJhIl0=", "WzIsIDFd"):
        assert client.get("/api/v1/audit", {"cursor": text}).status_code == 422
