"""One contract of each form that operations are sold in (G11), from the quote to the line of an invoice."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import uuid4

import pytest

from apps.accounts.problems import Problem
from apps.compilation.models import Program
from apps.invoicing.services import invoice_issue
from apps.ledger.models import Hold
from apps.ledger.services import usage_post
from apps.ledger.usage import Usage
from apps.pricing.rating import Rating, digest_of, exact_sum
from apps.sales.models import Contract, ContractState, FormName, Quote
from apps.sales.selectors import contract_usage
from apps.sales.services import (
    Quota,
    QuoteLine,
    contract_close,
    contract_executions_return,
    contract_executions_take,
    contract_lease_rate,
    quote_accept,
    quote_create,
)
from apps.sales.volumes import Form
from apps.timetable.models import Window
from tests.cast import Cast
from tests.sales.market import NOW, Market, open_market

pytestmark = pytest.mark.django_db

SOON = NOW + timedelta(hours=1)
MILLISECOND = Fraction(1, 1000)


def _quote(cast: Cast, market: Market, lines: list[QuoteLine] | Quota, **asked: Any) -> Quote:
    asked = {"klass": "standard", "window": (NOW, NOW + timedelta(days=7)), **asked}
    return quote_create(organisation=cast.organisation, lines=lines, pool=market.lpu, actor=None, now=NOW, **asked)


def _accept(cast: Cast, quote: Quote) -> Contract:
    return quote_accept(quote_id=quote.id, organisation=cast.organisation, actor=cast.owner, now=NOW)


def run(contract: Contract, program: Program, executions: int, *, at: datetime = SOON) -> Decimal:
    """What dispatch does for a lease: take, rate by the frozen terms, post."""
    contract_executions_take(contract_id=contract.id, program_digest=program.digest, count=executions, now=at)
    rating = contract_lease_rate(
        contract=contract, program_digest=program.digest, executions=executions, first_instant=at, now=at
    )
    usage = Usage(
        organisation_id=contract.organisation_id,
        contract_id=contract.id,
        lease_id=uuid4(),
        idempotency_key=f"{uuid4()}",
        operations=rating.counted_operations,
        cycles=program.interval_cycles * executions,
        program_digest=program.digest,
        project_id=program.model_version.model.project_id,
        model_name="model",
        rating=rating,
        occurred_from=at,
        occurred_to=at + timedelta(seconds=1),
    )
    usage_post(usage, now=at)
    return rating.amount


def _invoiced(cast: Cast, contract: Contract, *, at: datetime | None = None) -> dict[str, Any]:
    """Close the contract at its end and put it on an invoice; every line is its own rating, to the last digit."""
    end = at or contract.ends_at
    contract_close(contract_id=contract.id, now=end)
    invoice = invoice_issue(organisation=cast.organisation, actor=None, now=end + timedelta(seconds=1))
    document: dict[str, Any] = invoice.document
    amounts = [Decimal(line["amount"]) for line in document["lines"]]
    assert [Rating.from_json(line["rating"]).amount for line in document["lines"]] == amounts
    assert exact_sum(amounts) == Decimal(document["net"]) == contract_usage(contract).actual
    hold = Hold.objects.get(contract_id=contract.id)
    assert hold.posted == contract_usage(contract).actual <= hold.amount == contract.net
    return document


def _guaranteed(document: dict[str, Any]) -> None:
    document["classes"]["guaranteed"]["offered"] = True


@pytest.mark.parametrize(("klass", "net"), [("standard", "56.32"), ("priority", "98.56")])
def test_per_execution_and_by_priority(cast: Cast, market: Market, klass: str, net: str) -> None:
    program = market.program(cast.organisation, cast.engineer)
    quote = _quote(cast, market, [QuoteLine(program, 10_000_000)], klass=klass)
    assert "form" not in quote.document
    contract = _accept(cast, quote)
    run(contract, program, 4_000_000)
    run(contract, program, 6_000_000)
    document = _invoiced(cast, contract, at=SOON)
    assert Decimal(document["net"]) == quote.worst == Decimal(net)


def test_a_quota_is_drawn_by_any_program_to_the_last_operation(cast: Cast, market: Market) -> None:
    large = market.program(cast.organisation, cast.engineer, operations=10**12, interval=10**6)
    starved = market.program(cast.organisation, cast.engineer, operations=1, interval=10**8)  # billed by its cycles
    quote = _quote(cast, market, Quota("float32", 500))
    assert (quote.form, quote.worst) == (FormName.QUOTA, Decimal("4"))
    line = quote.document["lines"][0]
    assert (line["program"], line["quota"]["operations"]) == (None, 500 * 10**12)
    contract = _accept(cast, quote)
    window = Window.objects.get(reservation__contract_id=contract.id)
    most = Fraction(500 * 10**12, 1024 * 900_000_000)  # seconds, at the fewest operations of a cycle
    assert 0 <= (window.end - window.start) / timedelta(microseconds=1) - most * 10**6 < 1
    assert run(contract, large, 300) == Decimal("2.4")
    assert run(contract, starved, 100) == Decimal("0.08192")
    with pytest.raises(
        Problem, match=r"200 items need .* the quota has 189,760,000,000,000 of 500,000,000,000,000 left"
    ):
        contract_executions_take(contract_id=contract.id, program_digest=large.digest, count=200, now=SOON)
    contract_executions_take(contract_id=contract.id, program_digest=large.digest, count=189, now=SOON)
    contract_executions_return(contract_id=contract.id, program_digest=large.digest, count=189, now=SOON)
    document = _invoiced(cast, contract)
    assert {row["program"]["digest"]: row["amount"] for row in document["lines"]} == {
        large.digest: "2.4",
        starved.digest: "0.08192",
    }
    usage = contract_usage(contract)
    assert (usage.lines[0].unit, usage.lines[0].unused) == ("operations", 189_760_000_000_000)
    assert usage.difference == Decimal("2.48192") - 4


def test_a_quota_that_is_used_up_costs_what_was_quoted(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer, operations=10**11)
    contract = _accept(cast, _quote(cast, market, Quota("float32", 700)))
    run(contract, program, 7000)
    document = _invoiced(cast, contract, at=SOON)
    assert Decimal(document["net"]) == contract.net == Decimal("5.6")
    contract.refresh_from_db()
    assert contract.state == ContractState.USED


def test_a_quota_takes_no_program_of_a_stranger_or_of_another_precision(cast: Cast, market: Market) -> None:
    contract = _accept(cast, _quote(cast, market, Quota("int8", 10)))
    for program, said in (
        (market.program(cast.stranger_organisation, cast.stranger), "does not belong to this organisation"),
        (market.program(cast.organisation, cast.engineer), "for programs in int8"),
    ):
        with pytest.raises(Problem, match=said):
            contract_executions_take(contract_id=contract.id, program_digest=program.digest, count=1, now=NOW)
    assert not contract.lines.exists()


def test_a_long_period_is_reserved_in_equal_parts(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer)
    quote = _quote(cast, market, [QuoteLine(program, 7_000_000)], form=Form(FormName.SPREAD, Fraction(86_400)))
    contract = _accept(cast, quote)
    windows = list(Window.objects.filter(reservation__contract_id=contract.id).order_by("period"))
    assert [window.start for window in windows] == [NOW + timedelta(days=day) for day in range(7)]
    assert len(quote.document["reservation"]) == 7
    assert {int((window.end - window.start).total_seconds()) for window in windows} == {100}
    for day in range(7):
        run(contract, program, 1_000_000, at=NOW + timedelta(days=day))
    document = _invoiced(cast, contract, at=NOW + timedelta(days=6, hours=1))
    assert Decimal(document["net"]) == contract.net == Decimal("39.424")


def test_a_granular_interval_costs_both_ends(cast: Cast) -> None:
    """Exactly 500 executions every millisecond for ten seconds: 5,000,000 of 1,800 cycles, 900,000 cycles in each."""
    market = open_market(change=_guaranteed)
    program = market.program(cast.organisation, cast.engineer, operations=2_000_000_000, interval=1700, latency=2000)
    quote = _quote(
        cast,
        market,
        [QuoteLine(program, 500)],
        klass="guaranteed",
        form=Form(FormName.INTERVAL, MILLISECOND),
        window=(SOON, SOON + timedelta(seconds=10)),
    )
    line = quote.document["lines"][0]
    assert line["executions"] == 5_000_000
    assert line["rating"]["terms"]["schedule"] == {"each": 500, "every": "1/1000", "intervals": 10_000}
    assert quote.worst == Decimal("160")  # 10,000 tera-operations x 0.008 x 2
    contract = _accept(cast, quote)
    window = Window.objects.get(reservation__contract_id=contract.id)
    assert (window.start, window.end) == (SOON, SOON + timedelta(seconds=10))
    run(contract, program, 4_000_000)
    document = _invoiced(cast, contract)
    assert sorted((row["kind"], row["amount"]) for row in document["lines"]) == [("unused", "9.6"), ("usage", "128")]
    assert digest_of(contract.terms) == contract.terms_digest


def _ask(form: Form, executions: int = 500, klass: str = "guaranteed", start: datetime = SOON) -> dict[str, Any]:
    return {"form": form, "executions": executions, "klass": klass, "window": (start, start + timedelta(seconds=10))}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (_ask(Form(FormName.INTERVAL, MILLISECOND), 501), "at most 500 fit"),
        (_ask(Form(FormName.INTERVAL, MILLISECOND), klass="standard"), "has no price for a guaranteed interval"),
        (_ask(Form(FormName.INTERVAL, MILLISECOND), start=NOW), "must start in the future"),
        (_ask(Form(FormName.INTERVAL, Fraction(11))), "No whole interval"),
        (_ask(Form(FormName.INTERVAL)), "State the length of one part"),
        (_ask(Form(FormName.INTERVAL, Fraction(-1))), "must be above 0 seconds"),
        (_ask(Form(FormName.EXECUTION, Fraction(1))), "leave the length of a part empty"),
        (_ask(Form(FormName.SPREAD, Fraction(1))), "at least one hour"),
        (_ask(Form(FormName.QUOTA)), "Enter tera-operations"),
        (_ask(Form("gift")), "There is no contract form"),
    ],
)
def test_a_form_that_makes_no_sense_is_refused_with_what_to_do(cast: Cast, asked: dict[str, Any], said: str) -> None:
    market = open_market(change=_guaranteed)
    program = market.program(cast.organisation, cast.engineer, operations=2 * 10**9, interval=1799, latency=2000)
    with pytest.raises(Problem, match=said) as refusal:
        _quote(cast, market, [QuoteLine(program, asked.pop("executions"))], **asked)
    assert refusal.value.status == 422


def test_a_volume_that_cannot_be_cut_into_equal_parts_is_told_one_that_can(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer)
    with pytest.raises(Problem, match="Enter 1,001"):
        _quote(cast, market, [QuoteLine(program, 1000)], form=Form(FormName.SPREAD, Fraction(86_400)))


@pytest.mark.parametrize(
    ("quota", "said"),
    [
        (Quota("float32", 0), "1 to 5,000,000"),
        (Quota("float32", 5_000_001), "1 to 5,000,000"),
        (Quota("float80", 1), "Choose one of"),
    ],
)
def test_a_quota_has_bounds(cast: Cast, market: Market, quota: Quota, said: str) -> None:
    with pytest.raises(Problem, match=said):
        _quote(cast, market, quota)


def test_a_host_whose_pace_is_not_proven_sells_no_quota(cast: Cast, market: Market) -> None:
    with pytest.raises(Problem, match="is not known until the quota's programs are known"):
        quote_create(
            organisation=cast.organisation,
            lines=Quota("float32", 1),
            klass="standard",
            pool=market.host,
            window=None,
            actor=None,
            now=NOW,
        )


@pytest.mark.parametrize("form", [Form(), Form(FormName.INTERVAL, Fraction(1, 3))])
def test_a_form_survives_its_document(form: Form) -> None:
    assert Form.from_json(form.to_json()) == form
    assert Form.from_json(None) == Form()
