"""The quota tree where time is reserved: acceptances, amendments and standing requests, also many at once."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from apps.accounts.problems import Problem
from apps.ledger.models import Hold
from apps.sales.models import Contract, Quote
from apps.sales.services import quote_accept, quote_create, standing_file, standing_serve
from apps.sales.services.nodes import node_set, tree_with_use
from apps.timetable.models import Window
from tests.cast import Cast
from tests.sales.market import NOW, Market, open_market
from tests.sales.race import accept_together

HOUR = 3600 * 10_000  # executions of 90,000 cycles at 900 MHz
HOUR_US = 3600 * 10**6


def _quote(cast: Cast, market: Market, *, executions: int = HOUR // 2, amends: Contract | None = None) -> Quote:
    return quote_create(
        organisation=cast.organisation,
        lines=[(market.program(cast.organisation, cast.engineer), executions)],
        klass="standard",
        pool=market.lpu,
        window=(NOW, NOW + timedelta(hours=24)),
        actor=cast.engineer,
        now=NOW,
        amends=amends,
    )


def _accept(cast: Cast, quote: Quote) -> Contract:
    return quote_accept(quote_id=quote.id, organisation=cast.organisation, actor=cast.owner, now=NOW)


def _tree(cast: Cast, market: Market, *, project_us: int, borrowing_us: int = 0) -> UUID:
    """The organisation has two hours; the project of every program has a part of them."""
    program = market.program(cast.organisation, cast.engineer)
    project: UUID = program.model_version.model.project_id
    node_set(organisation=cast.organisation, nominal_us=2 * HOUR_US, actor=cast.owner, now=NOW)
    node_set(
        organisation=cast.organisation,
        project_id=project,
        nominal_us=project_us,
        borrowing_us=borrowing_us,
        actor=cast.owner,
        now=NOW,
    )
    return project


@pytest.mark.django_db
def test_a_refusal_names_the_node_and_takes_nothing_and_an_amendment_counts_what_it_frees(
    cast: Cast, market: Market
) -> None:
    _tree(cast, market, project_us=HOUR_US)
    contract = _accept(cast, _quote(cast, market))
    with pytest.raises(Problem) as refused:
        _accept(cast, _quote(cast, market, executions=HOUR))
    assert refused.value.kind == "quota-reached"
    assert "Project Default may have 1\N{NARROW NO-BREAK SPACE}h" in refused.value.detail
    assert Hold.objects.count() == Contract.objects.count() == 1
    amended = _accept(cast, _quote(cast, market, executions=HOUR * 9 // 10, amends=contract))
    (_, root), (_, project) = tree_with_use(cast.organisation, now=NOW)
    (window,) = Window.objects.filter(reservation__contract_id=amended.pk)
    assert root.used == project.used == (window.end - window.start) // timedelta(microseconds=1)
    assert [use.used for _, use in tree_with_use(cast.organisation, now=NOW + timedelta(hours=24))] == [0, 0]


@pytest.mark.django_db
def test_a_standing_request_waits_for_its_quota(cast: Cast, market: Market) -> None:
    project = _tree(cast, market, project_us=HOUR_US // 4)
    quote = _quote(cast, market)
    request = standing_file(
        quote_id=quote.pk, organisation=cast.organisation, most=quote.worst, actor=cast.engineer, now=NOW
    )
    assert standing_serve(pool="lpu-a", now=NOW) == 0
    request.refresh_from_db()
    assert (request.state, request.reason_kind) == ("waiting", "quota-reached")
    node_set(
        organisation=cast.organisation,
        project_id=project,
        nominal_us=HOUR_US // 4,
        borrowing_us=HOUR_US,
        actor=cast.owner,
        now=NOW,
    )
    assert standing_serve(pool="lpu-a", now=NOW) == 1


@pytest.mark.django_db(transaction=True)
def test_acceptances_at_once_do_not_overdraw_a_quota(cast: Cast) -> None:
    market = open_market(devices=4)
    _tree(cast, market, project_us=HOUR_US, borrowing_us=HOUR_US // 2)
    quotes = [(_quote(cast, market, executions=HOUR // 2 - 10).id, cast.organisation) for _ in range(6)]
    outcome = accept_together(quotes, now=NOW)
    assert outcome.broken == []
    assert (len(outcome.won), dict(outcome.refused)) == (3, {"quota-reached": 3})
    assert all(use.used <= 2 * HOUR_US for _, use in tree_with_use(cast.organisation, now=NOW))
