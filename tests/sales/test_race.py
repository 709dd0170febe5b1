from __future__ import annotations

from datetime import timedelta

import pytest

from apps.ledger.models import Hold
from apps.sales.models import Contract
from apps.sales.services import quote_create
from apps.timetable.models import Refusal, Window
from tests.cast import Cast
from tests.sales.market import NOW, open_market
from tests.sales.race import accept_together

HOUR = 3600 * 10_000  # executions of 90,000 cycles at 900 MHz


@pytest.mark.django_db(transaction=True)
def test_of_many_acceptances_of_the_last_window_one_wins_and_the_others_are_told_why(cast: Cast) -> None:
    market = open_market()
    program = {
        cast.organisation: market.program(cast.organisation, cast.engineer),
        cast.stranger_organisation: market.program(cast.stranger_organisation, cast.stranger),
    }
    organisations = [cast.organisation, cast.stranger_organisation] * 12
    quotes = [
        quote_create(
            organisation=organisation,
            lines=[(program[organisation], HOUR)],
            klass="standard",
            pool=market.lpu,
            window=(NOW, NOW + timedelta(hours=1, minutes=30)),
            actor=None,
            now=NOW,
        )
        for organisation in organisations
    ]
    outcome = accept_together(
        [(quote.id, organisation) for quote, organisation in zip(quotes, organisations, strict=True)], now=NOW
    )
    assert outcome.broken == []
    assert len(outcome.won) == 1
    assert outcome.refused == {"capacity-taken": 23}
    assert all("no free window" in sentence for sentence in outcome.sentences)
    assert Contract.objects.count() == Hold.objects.count() == Window.objects.count() == 1
    assert Refusal.objects.count() == 23


@pytest.mark.django_db(transaction=True)
def test_of_twenty_acceptances_of_one_quote_one_makes_the_contract(cast: Cast) -> None:
    market = open_market()
    quote = quote_create(
        organisation=cast.organisation,
        lines=[(market.program(cast.organisation, cast.engineer), 1000)],
        klass="standard",
        pool=market.lpu,
        window=(NOW, NOW + timedelta(hours=1)),
        actor=None,
        now=NOW,
    )
    outcome = accept_together([(quote.id, cast.organisation)] * 20, now=NOW)
    assert outcome.broken == []
    assert len(outcome.won) == 1
    assert outcome.refused == {"quote-accepted": 19}
    assert all(str(outcome.won[0]) in sentence for sentence in outcome.sentences)
    assert Contract.objects.count() == Hold.objects.count() == Window.objects.count() == 1
