"""Search: strictly one's own, by name, number, id and digest, in a fixed number of queries, whatever is typed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.accounts.access import principal_of_user
from apps.accounts.counters import number_next
from apps.accounts.models import NumberKind, User
from apps.dispatch.models import Job
from apps.invoicing.models import Invoice
from apps.pages.search import Group, Query, everything_search
from apps.planner.models import Plan, Task
from apps.registry.models import DataSet
from apps.sales.models import Contract, Quote
from tests.cast import Cast
from tests.invoicing.tenancy import an_invoice_of
from tests.planner.tenancy import a_plan, a_task
from tests.tiers import some

AsUser = Callable[[User], Client]
KINDS = 10  # queries of a member's search, one for each kind of object
pytestmark = pytest.mark.django_db


@dataclass
class Owned:
    """What one organisation has: texts that find it, and the addresses of its objects."""

    texts: list[str]
    urls: set[str]


def things_of(cast: Cast) -> Owned:
    """One object of each kind, with everything that it can be found by."""
    invoice = an_invoice_of(cast)
    plan = Plan.objects.get(**a_plan(cast))
    task = Task.objects.get(**a_task(cast))
    Contract.objects.filter(organisation=cast.organisation).update(name="Nightly batch")
    contract = Contract.objects.get(organisation=cast.organisation)
    Quote.objects.filter(pk=contract.quote_id).update(name="Offer of spring")
    program = contract.lines.get().program
    version, quote = program.model_version, contract.quote
    job = Job.objects.create(
        organisation=cast.organisation,
        contract=contract,
        number=number_next(organisation_id=cast.organisation.pk, kind=NumberKind.JOB),
        name="First batch",
        items=1,
        submitted_at=timezone.now(),
    )
    found = [
        (f"/invoices/{invoice.pk}", invoice.number, invoice.digest),
        (f"/contracts/{contract.pk}", contract.pk, contract.terms_digest),
        (f"/contracts/{contract.pk}", contract.reference, contract.name),
        (f"/quotes/{quote.pk}", quote.pk, quote.digest),
        (f"/quotes/{quote.pk}", quote.reference, quote.name),
        (f"/jobs/{job.pk}", job.pk),
        (f"/jobs/{job.pk}", job.reference, job.name),
        (f"/programs/{program.pk}", program.pk, program.digest),
        (f"/versions/{version.pk}", version.pk, version.sha256),
        (f"/versions/{version.pk}", version.model.name, version.filename),
        (f"/plans/{plan.pk}", plan.pk, plan.title),
        (f"/tasks/{task.pk}", task.pk, task.name),
    ]
    texts = [str(text) for _, *row in found for text in row if text]
    data_set = DataSet.objects.filter(organisation=cast.organisation).get()
    return Owned([*texts, data_set.name, data_set.digest], {url for url, *_ in found})


@pytest.fixture
def both(cast: Cast) -> tuple[Cast, Owned, Owned]:
    """The cast, what its organisation has, and what the stranger's has."""
    own = things_of(cast)
    stranger = replace(
        cast,
        organisation=cast.stranger_organisation,
        owner=cast.stranger,
        engineer=cast.stranger,
        billing=cast.stranger,
    )
    return cast, own, things_of(stranger)


def found(text: str, user: User) -> list[Group]:
    return everything_search(Query.read(text), principal=principal_of_user(user, None), limit=50)


def urls(groups: list[Group]) -> set[str]:
    return {hit.url for group in groups for hit in group.hits}


def test_everything_is_found_by_its_name_its_id_and_its_digest(both: tuple[Cast, Owned, Owned]) -> None:
    cast, own, _ = both
    hits = set().union(*(urls(found(text, cast.viewer)) for text in own.texts))
    assert own.urls <= hits
    for text in own.texts:
        if re.fullmatch(r"[0-9a-f-]{36}|[0-9a-f]{64}", text):
            assert urls(found(text, cast.viewer)) & urls(found(text[:8], cast.viewer)), text


def test_a_number_is_found_as_people_write_it(both: tuple[Cast, Owned, Owned]) -> None:
    cast, _, _ = both
    quote = Contract.objects.get(organisation=cast.organisation).quote
    for text in (quote.reference, quote.reference.lower(), f"q{quote.number}", f" {quote.number:04d} "):
        assert f"/quotes/{quote.pk}" in urls(found(text, cast.viewer)), text
    assert f"/quotes/{quote.pk}" not in urls(found(f"C-{quote.number:04d}", cast.viewer))


def test_nothing_of_another_organisation_is_ever_found(both: tuple[Cast, Owned, Owned]) -> None:
    """Property: whatever part of a stranger's or an own text is searched for, each finds what is their own."""
    cast, own, other = both
    text = st.sampled_from(own.texts + other.texts)

    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    @given(text, st.integers(0, 40), st.integers(1, 40))
    def holds(text: str, start: int, length: int) -> None:
        part = text[min(start, len(text) - 1) :][:length]
        assert not urls(found(part, cast.owner)) & other.urls
        assert not urls(found(part, cast.stranger)) & own.urls

    holds()


def test_a_search_takes_at_most_one_limited_query_for_each_kind(both: tuple[Cast, Owned, Owned]) -> None:
    cast, own, _ = both
    principal = principal_of_user(cast.owner, None)
    for text in ("a", "digits", own.texts[1], "zzzz"):
        with CaptureQueriesContext(connection) as caught:
            everything_search(Query.read(text), principal=principal)
        assert len(caught.captured_queries) <= KINDS
        assert all("LIMIT" in one["sql"] for one in caught.captured_queries)


@pytest.mark.parametrize(
    "text",
    ["x" * 10_000, "😀", "%", "_", "\x00", "a\x00b", "'; DROP TABLE x; --", "\\", " ", "-" * 50, "f" * 33, "\ud800"],
)
def test_any_input_ends_well(cast: Cast, as_user: AsUser, text: str) -> None:
    client = as_user(cast.owner)
    for path in ("/search", "/search/options"):
        expected = 400 if "\x00" in text else 200  # no address may hold a NUL
        assert client.get(path, {"q": text.encode("utf-8", "replace").decode()}).status_code == expected
    assert found(text, cast.owner) == found(text, cast.owner)


@settings(max_examples=some(200), deadline=None)
@given(st.text(max_size=400))
def test_a_query_is_one_short_line_without_control_characters(text: str) -> None:
    query = Query.read(text)
    assert len(query.text) <= 200
    assert query.text == " ".join(query.text.split())
    assert "\x00" not in query.text


def test_percent_and_underscore_are_looked_for_as_they_are(cast: Cast) -> None:
    a_task(cast)
    for text in ("%", "_", "d_gits", "dig%"):
        assert not any("/tasks/" in url for url in urls(found(text, cast.owner))), text


def test_a_stranger_finds_documents_and_none_of_the_pages_behind_the_sign_in() -> None:
    page = Client().get("/search", {"q": "latency"}).content.decode()
    assert "/docs/" in page
    groups = everything_search(Query.read("tokens"), principal=None)
    assert {group.title for group in groups} <= {"Documents"}


def test_pages_are_found_by_who_may_open_them(cast: Cast) -> None:
    assert "/settings/audit" in urls(found("audit log", cast.owner))
    assert "/settings/audit" not in urls(found("audit log", cast.viewer))
    assert "/capacity" not in urls(found("capacity", cast.owner))
    assert "/capacity" in urls(found("capacity", cast.admin))


def test_only_administrators_find_customers(both: tuple[Cast, Owned, Owned]) -> None:
    cast, _, _ = both
    assert f"/customers/{cast.organisation.pk}" in urls(found("acme", cast.admin))
    assert not any("/customers" in url for url in urls(found("acme", cast.owner)))


def test_a_deleted_file_is_not_found(both: tuple[Cast, Owned, Owned]) -> None:
    cast, _, _ = both
    version = Contract.objects.get(organisation=cast.organisation).lines.get().program.model_version
    version.deleted_at = timezone.now()
    version.save(update_fields=["deleted_at"])
    assert f"/versions/{version.pk}" not in urls(found(version.model.name, cast.owner))


def test_the_options_follow_the_pattern_of_a_list_box(cast: Cast, as_user: AsUser) -> None:
    a_task(cast)
    part = as_user(cast.owner).get("/search/options", {"q": "digits"}).content.decode()
    ids = re.findall(r'id="(option-[^"]+)"', part)
    assert part.count('role="option"') == len(ids) == len(set(ids))
    assert part.count('role="group" aria-labelledby=') >= 1
    assert 'data-href="/search?q=digits"' in part
    assert "<a " not in part


def test_the_page_of_results_needs_no_script(cast: Cast, as_user: AsUser) -> None:
    a_task(cast)
    page = as_user(cast.owner).get("/search", {"q": "digits"}).content.decode()
    task = Task.objects.get()
    assert f'href="/tasks/{task.pk}"' in page
    assert Invoice.objects.count() == 0
    nothing = as_user(cast.owner).get("/search", {"q": "qqqqqq"}).content.decode()
    assert "Nothing found" in nothing
