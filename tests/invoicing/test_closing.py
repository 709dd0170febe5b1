"""An organisation is deleted when nothing is open, and what must stay stays."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.access import principal_of_user
from apps.accounts.models import AuditEntry, Membership, User
from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.accounts.services import token_create
from apps.portal.deletion import open_business, organisation_delete
from apps.sales.models import Contract
from apps.sales.services import contract_end
from tests.cast import Cast
from tests.sales.tenancy import a_contract_of

AsUser = Callable[[User], Client]


def delete(cast: Cast) -> None:
    organisation_delete(
        organisation=cast.organisation, principal=principal_of_user(cast.owner, None), now=timezone.now()
    )


def test_open_business_is_refused_in_words_and_changes_nothing(cast: Cast, as_user: AsUser) -> None:
    a_contract_of(cast)
    with pytest.raises(Problem, match="1 active contract: end it early"):
        delete(cast)
    assert Membership.objects.filter(organisation=cast.organisation).count() == 4
    assert b"1 active contract" in as_user(cast.owner).get("/settings/organisation/delete").content


def test_a_deleted_organisation_is_closed_to_everybody_and_its_books_stay(cast: Cast, as_user: AsUser) -> None:
    contract = a_contract_of(cast)
    _, secret = token_create(
        user=cast.owner, organisation=cast.organisation, name="t", scopes=[Scope.READ], now=timezone.now()
    )
    contract_end(contract_id=contract.pk, organisation=cast.organisation, actor=cast.owner, now=timezone.now())
    assert open_business(cast.organisation, now=timezone.now()) == []
    client = as_user(cast.owner)
    assert client.post("/settings/organisation/delete", {"name": "Acme"}).status_code == 422
    assert client.post("/settings/organisation/delete", {"name": "Acme Vision"}).status_code == 302
    assert client.get("/settings/organisation").status_code == 404
    assert Client(headers={"authorization": f"Bearer {secret}"}).get("/api/v1/members").status_code == 401
    assert Contract.objects.filter(pk=contract.pk).exists()
    assert AuditEntry.objects.get(action="organisation.delete").detail == {"members": 4}
