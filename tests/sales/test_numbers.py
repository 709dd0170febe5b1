"""Quotes and contracts have numbers and names that people can use."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.utils import timezone

from apps.accounts.counters import number_next
from apps.accounts.models import AuditEntry, Counter, NumberKind, User
from apps.accounts.problems import Problem
from apps.sales.models import Contract, Quote
from apps.sales.services import contract_rename, quote_accept, quote_create, quote_rename
from tests.cast import Cast
from tests.sales.market import Market
from tests.sales.tenancy import a_contract_of, a_quote_of

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]


def _quote(cast: Cast, market: Market, name: str = "") -> Quote:
    now = timezone.now()
    return quote_create(
        organisation=cast.organisation,
        lines=[(market.program(cast.organisation, cast.engineer), 10)],
        klass="standard",
        pool=market.lpu,
        window=(now, now + timedelta(days=1)),
        name=name,
        actor=cast.engineer,
        now=now,
    )


def test_quotes_and_contracts_are_counted_apart(cast: Cast, market: Market) -> None:
    quotes = [_quote(cast, market, name) for name in ("", "  Nightly batch ")]
    assert [quote.title for quote in quotes] == ["Q-0001", "Q-0002 Nightly batch"]
    contract = quote_accept(quote_id=quotes[1].pk, organisation=cast.organisation, actor=None, now=timezone.now())
    assert contract.title == "C-0001 Nightly batch"


def test_a_name_is_no_part_of_what_was_quoted_or_agreed(cast: Cast) -> None:
    contract = a_contract_of(cast)
    quote, terms = contract.quote, contract.terms_digest
    now = timezone.now()
    quote_rename(quote_id=quote.pk, organisation=cast.organisation, name="One", actor=cast.owner, now=now)
    contract_rename(contract_id=contract.pk, organisation=cast.organisation, name="Two", actor=cast.owner, now=now)
    again = Contract.objects.select_related("quote").get(pk=contract.pk)
    assert (again.name, again.quote.name) == ("Two", "One")
    assert (again.terms_digest, again.quote.digest, again.quote.document) == (terms, quote.digest, quote.document)
    assert [entry.action for entry in AuditEntry.objects.order_by("-id")[:2]] == ["contract.rename", "quote.rename"]


def test_a_number_never_changes(cast: Cast) -> None:
    quote = a_quote_of(cast)
    with pytest.raises(IntegrityError), transaction.atomic():
        Quote.objects.filter(pk=quote.pk).update(number=99)


def test_an_unusable_name_is_refused_beside_what_to_do(cast: Cast, market: Market, as_user: AsUser) -> None:
    with pytest.raises(Problem, match="at most 80 characters"):
        _quote(cast, market, "x" * 81)
    contract, client = a_contract_of(cast), as_user(cast.engineer)
    for kind, pk in (("contracts", contract.pk), ("quotes", contract.quote_id)):
        answer = client.post(f"/{kind}/{pk}/name", {"name": "a\u202eb"})
        assert answer.status_code == 422
        assert "without control characters" in answer.content.decode()
        assert 'value="a\u202eb"' in answer.content.decode(), "what was typed stays in the field"
    assert Contract.objects.get(pk=contract.pk).title == "C-0001"


def test_pages_and_files_show_the_number_and_the_name(cast: Cast, as_user: AsUser) -> None:
    contract, client = a_contract_of(cast), as_user(cast.owner)
    quote = contract.quote
    client.post(f"/quotes/{quote.pk}/name", {"name": "Nightly <batch>"})
    for path in (f"/quotes/{quote.pk}", "/quotes", f"/quotes/compare?quote={quote.pk}"):
        page = client.get(path).content.decode()
        assert "Q-0001" in page, path
        assert "Nightly &lt;batch&gt;" in page, path
    for path in (f"/contracts/{contract.pk}", "/contracts"):
        assert "C-0001" in client.get(path).content.decode(), path
    answer = client.get(f"/quotes/{quote.pk}/quote.pdf")
    assert 'filename="Q-0001.pdf"' in answer["Content-Disposition"]


def test_the_api_names_and_numbers(cast: Cast, as_user: AsUser) -> None:
    contract, client = a_contract_of(cast), as_user(cast.owner)
    path = f"/api/v1/contracts/{contract.pk}"
    changed = client.patch(path, {"name": " Nightly "}, content_type="application/json").json()
    assert (changed["number"], changed["name"]) == ("C-0001", "Nightly")
    assert client.get(path).json()["name"] == "Nightly"
    refused = client.patch(path, {"name": "x" * 81}, content_type="application/json")
    assert (refused.status_code, refused.json()["code"]) == (422, "name")
    quote = client.get(f"/api/v1/quotes/{contract.quote_id}").json()
    assert (quote["number"], quote["name"]) == ("Q-0001", "")


def test_older_rows_are_numbered_in_the_order_in_which_they_were_made(cast: Cast, market: Market) -> None:
    """What the migration does: it numbers afresh, and the next quote goes on counting."""
    made = [_quote(cast, market) for _ in range(3)]
    migration = importlib.import_module("apps.sales.migrations.0013_numbers")
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(migration.UNGUARDED + migration.FORGET)
        cursor.execute("UPDATE sales_quote SET number = 100 - number")
        cursor.execute(migration.NUMBERS + migration.GUARDED.format(name=", 'name'"))
    assert list(Quote.objects.order_by("created_at", "id").values_list("number", flat=True)) == [1, 2, 3]
    assert {row.pk for row in Quote.objects.all()} == {quote.pk for quote in made}
    assert number_next(organisation_id=cast.organisation.pk, kind=NumberKind.QUOTE) == 4
    assert not Counter.objects.filter(kind="contract").exists()
