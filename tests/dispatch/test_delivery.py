"""Leases priced by the hours in which they ran and by the class that they got."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from django.db.models import F
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.dispatch import services as dispatch
from apps.dispatch.delivery import class_delivered
from apps.dispatch.models import Lease, LeaseState
from apps.invoicing.models import CreditGrant
from apps.invoicing.services import guarantees_credit_due, invoice_issue
from apps.ledger.models import UsageRow
from apps.ledger.reconciling import reconcile
from apps.pricing.rating import Rating, exact_sum, rate_bought
from apps.pricing.selectors import book_of_digest
from apps.sales.selectors import contract_usage
from tests.cast import Cast
from tests.dispatch.scene import Scene
from tests.pricing.rating.books import book
from tests.sales.market import NOW, open_market
from tests.tiers import some

BOOK = book()
HOUR = Fraction(3600)


def _served(bought: str, minutes: float, *, work: Fraction = HOUR) -> str:
    return class_delivered(book=BOOK, bought=bought, since=NOW, work=work, end=NOW + timedelta(minutes=minutes))


def test_a_class_is_kept_to_its_last_instant_and_lost_after_it() -> None:
    assert _served("priority", 75) == ""
    assert _served("priority", 75.001) == "standard"
    assert _served("batch", 24 * 60) == ""
    assert _served("batch", 24 * 60 + 0.001) == "gap_fill"
    assert _served("standard", 10**6) == ""


@settings(max_examples=some(100))
@given(bought=st.sampled_from(sorted(BOOK.classes)), minutes=st.integers(0, 10_000), work=st.fractions(0, 10**6))
def test_a_later_end_never_gets_a_dearer_class(bought: str, minutes: int, work: Fraction) -> None:
    def price(name: str) -> Decimal:
        one = BOOK.price_class(name or bought)
        return one.surcharge * one.discount

    prices = [price(_served(bought, minutes + more, work=work)) for more in (0, 1, 1440)]
    assert prices == sorted(prices, reverse=True)


@pytest.mark.django_db
def test_work_that_had_to_wait_is_billed_at_the_class_it_got(cast: Cast) -> None:
    scene = Scene(open_market(), cast)
    program = scene.program(operations=40_000_000)
    contract = scene.contract((program, 300), klass="priority", window=timedelta(hours=8))
    scene.run(scene.job(contract, 100))
    late = scene.job(contract, 200)
    # Its place was lost (as when a stage waits for room): it is laid out anew an hour after it was asked for.
    hour = timedelta(hours=1)
    Lease.objects.filter(stage__job=late).update(device_from=F("device_from") + hour, device_to=F("device_to") + hour)
    scene.run(late)
    terms = {row.rating["terms"].get("served", ""): row for row in UsageRow.objects.all()}
    assert set(terms) == {"", "standard"}
    usage = contract_usage(contract)
    line = Decimal(contract.terms["lines"][0]["amount"])
    assert exact_sum(UsageRow.objects.values_list("amount", flat=True)) == line / 3 + line * 2 / 3 / Decimal("1.75")
    invoice = invoice_issue(organisation=cast.organisation, actor=None, now=scene.now + timedelta(minutes=1))
    (served,) = [one for one in invoice.document["lines"] if "downgrade" in one]
    assert Decimal(served["downgrade"]["saved"]) == usage.difference.copy_negate()
    assert reconcile(cast.organisation.id).differences == []


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("start", "hours"),
    [
        (datetime(2026, 11, 24, 19, 59, 59, 900_000, tzinfo=UTC), {"peak", "off-peak"}),  # 21:00 in Berlin
        (datetime(2026, 10, 25, 0, 59, 59, 900_000, tzinfo=UTC), {"off-peak"}),  # the hour that comes twice
    ],
)
def test_hours_of_a_tariff_are_told_by_first_cycles_and_never_cost_more_than_quoted(
    cast: Cast, start: datetime, hours: set[str]
) -> None:
    def hourly(d: dict[str, Any]) -> None:
        d["classes"]["standard"]["time_of_use"] = True
        d["tariff"]["periods"][1]["factor"] = "0.6"

    scene = Scene(open_market(change=hourly), cast, now=start)
    program = scene.program(operations=40_000_000, interval=9_000_000, latency=9_000_000)  # 100 an hour's second
    contract = scene.contract((program, 100))
    scene.run(scene.job(contract, 100))
    rows = [Rating.from_json(row.rating) for row in UsageRow.objects.all()]
    assert {name for row in rows for name in row.periods or {}} == hours
    bought = exact_sum(rate_bought(book_of_digest(row.book_digest), row).amount for row in rows)
    assert bought == contract.net == Decimal(contract.quote.document["net"])
    used = contract_usage(contract)
    assert used.actual == exact_sum(row.amount for row in rows) <= contract.net
    cheap = sum((row.periods or {}).get("off-peak", 0) for row in rows)
    each = contract.net / 100
    dear = Decimal("0.6") if hours == {"off-peak"} else Decimal(1)
    assert used.actual == each * (100 - cheap) + each * cheap * Decimal("0.6") / dear
    assert reconcile(cast.organisation.id).differences == []


@pytest.mark.django_db
def test_what_a_program_cannot_do_with_its_inputs_is_not_credited(cast: Cast) -> None:
    scene = Scene(open_market(), cast)
    contract = scene.contract((scene.program(operations=40_000_000), 100))
    for ours, credited in ((False, 0), (True, 1)):
        lease = scene.take(Lease.objects.get(stage__job=scene.job(contract, 10)))
        dispatch.lease_fail(lease_id=lease.pk, epoch=lease.epoch, reason="said", now=scene.now, is_ours=ours)
        assert Lease.objects.get(pk=lease.pk).state == LeaseState.FAILED
        assert guarantees_credit_due(now=scene.now) == credited == CreditGrant.objects.count()
