"""What random histories begin with: a market, and a contract that is large enough for all of one."""

from __future__ import annotations

from datetime import timedelta

from apps.sales.models import Contract
from apps.sales.services import quote_accept, quote_create
from tests.cast import Cast
from tests.sales.market import NOW, open_market

EXECUTIONS = 10**7


def contract_for(cast: Cast) -> Contract:
    """A contract over ten million executions, about 56 EUR, accepted at NOW."""
    market = open_market()
    program = market.program(cast.organisation, cast.engineer)
    quote = quote_create(
        organisation=cast.organisation,
        lines=[(program, EXECUTIONS)],
        klass="standard",
        pool=market.lpu,
        window=(NOW, NOW + timedelta(days=1)),
        actor=cast.engineer,
        now=NOW,
    )
    return quote_accept(quote_id=quote.id, organisation=cast.organisation, actor=cast.owner, now=NOW)
