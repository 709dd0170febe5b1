"""Revisions are proposed where they cost less or keep what is at risk: once, in turns, and nothing is applied."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.ledger.models import OutboxRow
from apps.planner.models import Plan
from apps.sales.models import ContractReview, ContractState
from apps.sales.services import contract_end, contract_review, contracts_review_due
from apps.timetable.models import Window
from tests.cast import Cast
from tests.sales.market import CLOCK, Market
from tests.sales.test_revising import bought

pytestmark = pytest.mark.django_db
TOLD = "contract.revision"


def test_a_cheaper_way_is_told_of_once_and_changes_nothing(
    cast: Cast, market: Market, as_user: Callable[[User], Client]
) -> None:
    contract, now = bought(cast, market), timezone.now()
    assert contracts_review_due(now=now) == 0
    assert Plan.objects.count() == 1, "what was looked at for nothing is not kept"
    fast = CLOCK // 100
    cheap = market.program(cast.organisation, cast.engineer, operations=1, interval=fast, latency=fast, target="lpu2")
    cheap.model_version = Plan.objects.get().model_version
    cheap.save()
    assert contracts_review_due(now=now + timedelta(minutes=59)) == 0
    later = now + timedelta(minutes=61)
    assert [contracts_review_due(now=later), contracts_review_due(now=later + timedelta(hours=2))] == [1, 0]
    review = ContractReview.objects.get()
    assert review.proposed is not None
    assert (review.proposed.chosen["pool"], review.proposed.basis["revises"]) == ("lpu2-b", str(contract.pk))
    assert review.reason.startswith("The rest of the contract costs ")
    assert [row.payload["plan"] for row in OutboxRow.objects.filter(topic=TOLD)] == [str(review.proposed_id)]
    contract.refresh_from_db()
    assert (contract.state, contract.pool_id) == (ContractState.ACTIVE, market.lpu.pk)
    assert (
        f'href="/plans/{review.proposed_id}"'
        in as_user(cast.engineer).get(f"/contracts/{contract.pk}").content.decode()
    )


def test_a_promise_at_risk_is_told_of_and_a_run_takes_those_that_waited_longest(cast: Cast, market: Market) -> None:
    """Another contract made it wait for an hour and is gone; its own windows were moved behind what it promised."""
    other, late = bought(cast, market, items=3600), bought(cast, market)
    now = timezone.now()
    contract_end(contract_id=other.pk, organisation=cast.organisation, actor=None, now=now)
    third = bought(cast, market)
    assert [contracts_review_due(now=now, limit=1), contracts_review_due(now=now, limit=1)] == [0, 0]
    assert set(ContractReview.objects.values_list("contract", flat=True)) == {late.pk, third.pk}
    window = Window.objects.get(reservation=late.reservation_id)
    begin, length = now + timedelta(hours=3), window.end - window.start
    Window.objects.filter(pk=window.pk).update(period=(begin, begin + length))
    found = contract_review(contract_id=late.pk, now=now)
    assert found is not None
    assert found.reason.startswith("The contract promised all items by ")
    assert contract_review(contract_id=third.pk, now=now) is None
