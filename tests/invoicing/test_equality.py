"""For contracts of any kind used up in full: what is invoiced is what was quoted, and payable is that, rounded once."""

from __future__ import annotations

import random
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.invoicing.services import invoice_issue
from apps.ledger.reconciling import reconcile
from apps.pricing.rating import Counts, Terms, exact_sum, payable_of, rate, shares_of
from apps.sales.models import Contract, ContractState
from apps.sales.selectors import contract_usage
from apps.sales.services import contracts_close_due, quote_accept, quote_create
from tests.cast import Cast
from tests.pricing.rating.books import book
from tests.sales.market import NOW, open_market
from tests.sales.test_contracts import run
from tests.tiers import some

CONTRACTS = some(100)
BOOK = book()

contracts = st.tuples(
    st.builds(Counts, operations=st.integers(0, 10**13), cycles=st.integers(1, 10**8)),
    st.sampled_from(["standard", "priority", "batch"]),
    st.lists(st.integers(1, 10**9), min_size=1, max_size=5),
)


@given(st.lists(contracts, min_size=1, max_size=10))
def test_whatever_leases_a_contract_is_run_in_the_invoice_is_the_quote(
    many: list[tuple[Counts, str, list[int]]],
) -> None:
    quoted, metered = [], []
    for counts, klass, leases in many:
        terms = Terms("lpu", "float32", klass, instant=NOW)
        quoted.append(rate(book=BOOK, counts=counts, executions=sum(leases), terms=terms).amount)
        metered += [rate(book=BOOK, counts=counts, executions=n, terms=terms).amount for n in leases]
    assert sum(map(Fraction, quoted)) == sum(map(Fraction, metered))
    total = payable_of(exact_sum(metered), exponent=2)
    assert total == payable_of(exact_sum(quoted), exponent=2)
    assert exact_sum(shares_of(total.payable, quoted, exponent=2)) == total.payable


def _leases(dice: random.Random, executions: int) -> list[int]:
    """The volume cut into up to four leases."""
    cuts = sorted({dice.randrange(1, executions) for _ in range(3)}) if executions > 1 else []
    edges = [0, *cuts, executions]
    return [right - left for left, right in pairwise(edges)]


@pytest.mark.django_db
def test_contracts_used_up_in_full_are_invoiced_as_quoted(cast: Cast) -> None:
    market, dice = open_market(devices=2), random.Random(20_26)
    quoted: dict[str, Decimal] = {}
    for _ in range(CONTRACTS):
        program = market.program(
            cast.organisation,
            cast.engineer,
            operations=dice.randrange(10 ** dice.randrange(1, 13)),
            interval=dice.randrange(1, 10 ** dice.randrange(1, 7)),
        )
        quote = quote_create(
            organisation=cast.organisation,
            lines=[(program, dice.randrange(1, 10 ** dice.randrange(1, 7)))],
            klass=dice.choice(["standard", "priority", "batch", "off_peak"]),
            pool=market.lpu,
            actor=None,
            now=NOW,
        )
        contract = quote_accept(quote_id=quote.id, organisation=cast.organisation, actor=None, now=NOW)
        quoted[str(contract.id)] = quote.worst
        for executions in _leases(dice, contract.terms["lines"][0]["executions"]):
            run(contract, executions)

    invoice = invoice_issue(organisation=cast.organisation, actor=None, now=NOW + timedelta(minutes=1))

    invoice.refresh_from_db()
    lines = invoice.document["lines"]
    assert {line["contract"]: Decimal(line["amount"]) for line in lines} == quoted
    assert invoice.net == exact_sum(quoted.values())
    assert invoice.payable == payable_of(exact_sum(quoted.values()), exponent=2).payable
    assert exact_sum(Decimal(line["share"]) for line in lines) == invoice.payable
    assert contracts_close_due(now=NOW + timedelta(minutes=1)) == CONTRACTS
    assert set(Contract.objects.values_list("state", flat=True)) == {ContractState.USED}
    assert all(contract_usage(contract).difference == 0 for contract in Contract.objects.all())
    assert reconcile(cast.organisation.id).differences == []
