"""Late cancellation: who blocks time and releases it late pays for it; whoever releases it in time, or uses it, does not."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from apps.accounts.problems import Problem
from apps.cli.verify import verify
from apps.compilation.models import Program
from apps.invoicing.exports import invoice_json
from apps.invoicing.reconciliation import reconcile_all
from apps.invoicing.services import invoice_issue
from apps.ledger.models import AccountKind, Entry, Hold, HoldState, UsageRow
from apps.ledger.services import holds_expire_due
from apps.pricing.rating import exact_sum
from apps.pricing.rating.decimals import multiply
from apps.pricing.selectors import document_of
from apps.sales.differences import differences_named
from apps.sales.ending_cost import ending_of
from apps.sales.exports import quote_json
from apps.sales.models import Contract, ContractState, FormName, Quote
from apps.sales.releasing import rest_rating
from apps.sales.selectors import contract_usage
from apps.sales.services import Quota, QuoteLine, contract_end, contracts_close_due, quote_accept, quote_create
from apps.sales.volumes import Form
from apps.timetable.models import Window, WindowState
from tests.cast import Cast
from tests.sales.market import NOW, Market, open_market
from tests.sales.test_forms import run
from tests.tiers import part

pytestmark = pytest.mark.django_db
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
BEGIN = NOW + 3 * DAY  # where the work is reserved; late from BEGIN - 24 h on, as of the whole hour
AHEAD = (BEGIN, BEGIN + 2 * DAY)
FREE = NOW.replace(minute=0) + 2 * DAY + HOUR  # the first whole hour that is late
TERM = {"notice_minutes": 1440, "share": "0.4"}
MILLION = 10**6  # executions: 5.632 EUR, 100 s


def _terms(document: dict[str, Any]) -> None:
    for name in ("standard", "guaranteed", "batch", "off_peak"):
        document["classes"][name]["late_cancellation"] = dict(TERM)
    document["classes"]["guaranteed"]["offered"] = True


@pytest.fixture
def market(cast: Cast) -> Market:
    return open_market(change=_terms)


def _quote(cast: Cast, market: Market, lines: Any, **asked: Any) -> Quote:
    asked = {"klass": "standard", "window": AHEAD, "now": NOW, "pool": market.lpu, **asked}
    return quote_create(organisation=cast.organisation, lines=lines, actor=None, **asked)


def _accepted(cast: Cast, quote: Quote, at: datetime = NOW) -> Contract:
    return quote_accept(quote_id=quote.id, organisation=cast.organisation, actor=cast.owner, now=at)


def _bought(cast: Cast, market: Market, executions: int = MILLION, **asked: Any) -> tuple[Program, Contract]:
    program = market.program(cast.organisation, cast.engineer)
    return program, _accepted(cast, _quote(cast, market, [QuoteLine(program, executions)], **asked))


def _end(cast: Cast, contract: Contract, at: datetime, at_most: Decimal | None = None) -> Decimal:
    """End it; what that was charged."""
    before = contract_usage(contract).actual
    contract_end(contract_id=contract.id, organisation=cast.organisation, actor=cast.owner, now=at, at_most=at_most)
    contract.refresh_from_db()
    usage = contract_usage(contract)
    differences_named(contract, usage)
    return exact_sum([usage.actual, before.copy_negate()])


def test_it_is_in_the_quote_and_in_the_terms(cast: Cast, market: Market) -> None:
    _, contract = _bought(cast, market)
    said = contract.quote.document
    assert said["late"] == {
        "title": "Late cancellation",
        **TERM,
        "amount": "2.2528",
        "free_until": FREE.isoformat().replace("+00:00", "Z"),
    }
    assert contract.terms["late"] == said["late"]
    assert said["net"] == "5.632", "what is held stays what the use costs"
    assert "Late cancellation: reserved time that is not used costs 40" in " ".join(said["assumptions"])


@pytest.mark.parametrize("count", [1, 3])
def test_who_squats_pays_and_who_releases_early_does_not(cast: Cast, market: Market, count: int) -> None:
    for at, share in ((FREE - timedelta(microseconds=1), "0"), (FREE, "0.4"), (BEGIN - timedelta(seconds=1), "0.4")):
        contracts = [_bought(cast, market)[1] for _ in range(count)]
        for contract in contracts:
            told = ending_of(contract, now=at)
            assert told.charge == multiply(contract.net, Decimal(share))
            assert _end(cast, contract, at, told.charge) == told.charge
    letting_it_pass = [_bought(cast, market)[1] for _ in range(count)]
    assert contracts_close_due(now=AHEAD[1]) == count
    assert all(contract_usage(one).late == Decimal("2.2528") for one in letting_it_pass)
    assert not Window.objects.filter(state=WindowState.ACTIVE, period__startswith__gte=AHEAD[1]).exists()
    invoice = invoice_issue(organisation=cast.organisation, actor=None, now=AHEAD[1] + HOUR)
    assert invoice.net == multiply(Decimal("2.2528"), 3 * count)
    assert reconcile_all(cast.organisation).differences == []


def test_what_is_used_is_charged_as_quoted_and_the_rest_is_late(cast: Cast, market: Market) -> None:
    program, contract = _bought(cast, market)
    run(contract, program, 750_000, at=BEGIN)
    assert ending_of(contract, now=BEGIN + HOUR).late_count == 250_000
    assert _end(cast, contract, BEGIN + HOUR) == Decimal("0.5632")
    usage = contract_usage(contract)
    assert (usage.actual, usage.late, usage.breakage) == (Decimal("4.7872"), Decimal("0.5632"), Decimal(0))
    named = {one["name"]: one["amount"] for one in differences_named(contract, usage)}
    assert named == {"unused": "-1.408", "late cancellation": "0.5632"}
    row = UsageRow.objects.get(lease_id=None)
    assert (row.billed_operations, row.operations, row.quantity, row.model_name) == (0, 0, 250_000, "Late cancellation")
    assert Entry.objects.get(account__kind=AccountKind.BREAKAGE).amount == Decimal("-0.5632")
    assert exact_sum(Entry.objects.values_list("amount", flat=True)) == 0


def test_used_up_it_never_hears_of_it(cast: Cast, market: Market) -> None:
    program, contract = _bought(cast, market)
    run(contract, program, MILLION, at=BEGIN)
    assert contracts_close_due(now=BEGIN + HOUR) == 1
    contract.refresh_from_db()
    usage = contract_usage(contract)
    assert (contract.state, usage.actual, usage.late) == (ContractState.USED, Decimal("5.632"), Decimal(0))


def test_what_the_page_said_is_what_is_charged(cast: Cast, market: Market) -> None:
    _, contract = _bought(cast, market)
    told = ending_of(contract, now=FREE - HOUR)
    assert (told.charge, told.free_until, told.rises_at) == (Decimal(0), FREE, FREE)
    with pytest.raises(Problem, match="The contract was not ended") as refusal:
        _end(cast, contract, FREE, told.charge)
    assert (refusal.value.status, refusal.value.kind) == (409, "ending-costs-more")
    assert Hold.objects.get(contract_id=contract.id).state == HoldState.PENDING
    later = ending_of(contract, now=FREE)
    assert (later.late_charge, later.free_until, later.rises_at) == (Decimal("2.2528"), None, None)
    assert _end(cast, contract, FREE + 40 * timedelta(minutes=1), later.charge) == later.charge
    assert ending_of(contract, now=FREE + DAY).charge == 0


@pytest.mark.parametrize("seed", part(range(10)))
def test_a_charge_never_depends_on_the_steps_and_grows_with_time(cast: Cast, market: Market, seed: int) -> None:
    """Contracts that are ended at once, or amended to less again and again and then ended, in one hour come to the same; the
    preview, the charge, the invoice and the offline check agree, and later is never cheaper."""
    chance = Random(seed)
    whole = chance.randrange(MILLION, 4 * MILLION)
    used = chance.choice([0, chance.randrange(whole // 2)])
    form = chance.choice([Form(FormName.EXECUTION), Form(FormName.SPREAD, Fraction(3600))])
    if form.name == FormName.SPREAD:
        whole = whole // 100 * 48
    at = BEGIN.replace(minute=0) + timedelta(minutes=chance.randrange(-40 * 60, 30 * 60))
    at = at.replace(minute=5)
    program, direct = _bought(cast, market, whole, form=form)
    if used and at > BEGIN:
        used = min(used, whole)
        run(direct, program, used, at=BEGIN)
    else:
        used = 0
    charges = [ending_of(direct, now=at + timedelta(minutes=minutes)).charge for minutes in range(-600, 3000, 60)]
    assert charges == sorted(charges)
    unused = contract_usage(direct).lines[0].unused
    worth = rest_rating(direct, program.digest, unused, unused=False).amount
    assert all(0 <= charge <= multiply(worth, Decimal("0.4")) for charge in charges)
    expected = ending_of(direct, now=at).charge
    assert _end(cast, direct, at, expected) == expected

    other, stepped = _bought(cast, market, whole, form=form)
    if used:
        run(stepped, other, used, at=BEGIN)
    parts = [contract_usage(stepped).late]
    left = contract_usage(stepped).lines[0].unused
    for minute in (1, 2):
        left = left * chance.randrange(1, 9) // 10
        if not left:
            break
        now = at + timedelta(minutes=minute)
        window = (max(BEGIN, now), AHEAD[1])
        amending = _quote(cast, market, [QuoteLine(other, left)], amends=stepped, now=now, window=window)
        after = _accepted(cast, amending, now)
        parts.append(contract_usage(stepped).late)
        stepped = after
    _end(cast, stepped, at + timedelta(minutes=5))
    parts.append(contract_usage(stepped).late)
    if form.name == FormName.EXECUTION:
        assert exact_sum(parts) == expected
    invoice = (
        invoice_issue(organisation=cast.organisation, actor=None, now=at + 2 * DAY)
        if UsageRow.objects.exists()
        else None
    )
    if invoice:
        assert verify(json.loads(invoice_json(invoice)), models=[], books=[document_of(market.book)]).checked
    assert reconcile_all(cast.organisation).differences == []


def test_an_amendment_that_moves_away_releases_its_time(cast: Cast, market: Market) -> None:
    """To a later period, another pool, or where releasing it would cost less: what was reserved is released late."""
    at = BEGIN - HOUR
    later = (BEGIN + 10 * DAY, BEGIN + 12 * DAY)
    for asked, charge in (
        ({}, "0"),
        ({"window": later}, "2.2528"),
        ({"klass": "off_peak"}, "2.2528"),
        ({"klass": "priority"}, "2.2528"),
    ):
        program, contract = _bought(cast, market)
        wide = {"window": (BEGIN, BEGIN + 2 * DAY), **asked}
        if asked.get("klass") == "priority":
            wide["window"] = (at, at + DAY)  # it has no such term, so nothing would be owed any more
        amending = _quote(cast, market, [QuoteLine(program, MILLION)], amends=contract, now=at, **wide)
        said = amending.document["amends"]
        assert said.get("late_charge", "0") == charge
        assert said.get("carried", {}) == ({} if Decimal(charge) else {program.digest: MILLION})
        new = _accepted(cast, amending, at)
        assert contract_usage(contract).late == Decimal(charge)
        contract.refresh_from_db()
        differences_named(contract, contract_usage(contract))
        # What was taken over stays late: the new contract is not a way out.
        left = {"0": "2.2528", "2.2528": "0"}[charge]
        if asked.get("klass") == "off_peak":
            left = "1.35168"  # its night begins within the notice
        assert ending_of(new, now=at).late_charge == Decimal(left)
        _end(cast, new, at)
    assert reconcile_all(cast.organisation).differences == []


def test_the_difference_of_an_amendment_is_the_one_that_is_charged(cast: Cast, market: Market, as_user: Any) -> None:
    program, contract = _bought(cast, market)
    amending = _quote(cast, market, [QuoteLine(program, 400_000)], amends=contract, now=FREE - HOUR)
    assert amending.document["amends"]["charge"] == "0"
    with pytest.raises(Problem, match="more of its unused time is now subject to late cancellation") as refusal:
        _accepted(cast, amending, FREE)
    assert refusal.value.kind == "amendment-changed"
    again = _quote(cast, market, [QuoteLine(program, 400_000)], amends=contract, now=FREE)
    said = again.document["amends"]
    assert (said["charge"], said["late_charge"], said["carried"]) == ("1.35168", "1.35168", {program.digest: 400_000})
    assert said["lines"][0]["late"] == 600_000
    new = _accepted(cast, again, FREE + 30 * timedelta(minutes=1))
    assert new.terms["amends"]["carried"] == {program.digest: 400_000}
    assert contract_usage(contract).late == Decimal("1.35168")
    assert _end(cast, new, FREE + DAY) == Decimal("0.90112")
    client: Client = as_user(cast.owner)
    assert "for late cancellation" in client.get(f"/quotes/{again.pk}").content.decode()


def test_a_plan_pays_for_what_it_expects_alone(cast: Cast, market: Market) -> None:
    """A cascade reserves more than it expects, for the platform's promise; whoever states less alone gains nothing by it."""
    first = market.program(cast.organisation, cast.engineer, name="first")
    second = market.program(cast.organisation, cast.engineer, name="second")
    for planned, late in ((True, "3.15392"), (False, "4.5056")):
        lines = [
            QuoteLine(first, MILLION, MILLION, planned=planned),
            QuoteLine(second, MILLION, 400_000, planned=planned),
        ]
        quote = _quote(cast, market, lines, plan_id=uuid4() if planned else None)
        assert quote.document["late"]["amount"] == late
        assert verify(json.loads(quote_json(quote)), models=[], books=[document_of(market.book)]).checked
        contract = _accepted(cast, quote)
        if planned:
            run(contract, first, MILLION, at=BEGIN)
            run(contract, second, 400_000, at=BEGIN)
            assert _end(cast, contract, BEGIN + HOUR) == 0
        else:
            assert _end(cast, contract, BEGIN + HOUR) == Decimal(late)


def test_a_quota_an_interval_and_two_programs(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer, operations=10**12)
    quota = _accepted(cast, _quote(cast, market, Quota("float32", 10)))
    run(quota, program, 4, at=BEGIN)
    assert _end(cast, quota, BEGIN) == multiply(quota.net, Decimal("0.24"))

    # Half of an interval's time lies beyond the notice: that half is free. Unused it costs 0.6 of the list price anyhow, late
    # 0.4 of a price that is twice as high.
    counted = market.program(cast.organisation, cast.engineer)
    interval = _accepted(
        cast,
        _quote(
            cast,
            market,
            [QuoteLine(counted, 1)],
            klass="guaranteed",
            form=Form(FormName.INTERVAL, Fraction(60)),
            window=(BEGIN, BEGIN + 2 * DAY),
        ),
    )
    half = BEGIN + timedelta(minutes=30)  # 11:00, so that until 11:00 tomorrow is late: 24.5 of 48 hours
    assert ending_of(interval, now=half).late_count == 24 * 60 + 30
    share = Fraction(24 * 60 + 30, 48 * 60)
    unused, late = Fraction(interval.net) * Fraction(3, 10), Fraction(interval.net) * Fraction(1, 10) * share
    charged = _end(cast, interval, half)
    assert Fraction(charged) == unused + late
    usage = contract_usage(interval)
    assert (Fraction(usage.breakage), Fraction(usage.late)) == (unused, late)

    other = market.program(cast.organisation, cast.engineer)
    both = _accepted(cast, _quote(cast, market, [QuoteLine(counted, 500_000), QuoteLine(other, 250_000)]))
    run(both, counted, 500_000, at=BEGIN)
    assert _end(cast, both, BEGIN + HOUR) == Decimal("0.5632")
    invoice = invoice_issue(organisation=cast.organisation, actor=None, now=BEGIN + 2 * DAY)
    assert verify(json.loads(invoice_json(invoice)), models=[], books=[document_of(market.book)]).checked
    assert reconcile_all(cast.organisation).differences == []


def test_a_contract_of_an_earlier_book_ends_for_free_for_ever(cast: Cast) -> None:
    from apps.pricing.services import pricebook_publish
    from tests.pricing.rating.books import document

    market = open_market()
    _, contract = _bought(cast, market)

    def change(given: dict[str, Any]) -> None:
        _terms(given)
        given["version"] = 2

    pricebook_publish(document=document(change), effective_from=NOW + 31 * DAY, now=NOW)
    assert "late" not in contract.terms
    assert ending_of(contract, now=BEGIN).charge == 0
    assert _end(cast, contract, BEGIN) == 0
    _, lapsed = _bought(cast, market)
    contracts_close_due(now=AHEAD[1])
    assert contract_usage(lapsed).actual == 0


def test_a_hold_that_expired_is_never_charged(cast: Cast, market: Market) -> None:
    _, contract = _bought(cast, market)
    late = contract.ends_at + 30 * DAY
    holds_expire_due(now=late)
    assert contracts_close_due(now=late) == 1
    assert contract_usage(contract).actual == 0
    assert reconcile_all(cast.organisation).differences == []


def test_a_window_that_is_running_is_cut_and_the_rest_stays_readable(cast: Cast, market: Market) -> None:
    """A contract that is cut in its middle is charged by all that was reserved, also when it is looked at again."""
    _, contract = _bought(cast, market, 40 * 3600 * 10_000)  # 40 hours from BEGIN on
    middle = BEGIN + 6 * HOUR
    told = ending_of(contract, now=middle)
    until = middle.replace(minute=0) + DAY
    # Of whole seconds and whole executions, but for the one that the notice cuts.
    assert told.late_count == int((until - BEGIN).total_seconds()) * 10_000 - 1
    assert _end(cast, contract, middle) == told.charge
    assert sorted(one.state for one in Window.objects.all()) == ["active", "released"]
    assert reconcile_all(cast.organisation).differences == []
    Window.objects.filter(state=WindowState.RELEASED).delete()  # a planted fault
    assert any("charged for late cancellation" in one for one in reconcile_all(cast.organisation).differences)
