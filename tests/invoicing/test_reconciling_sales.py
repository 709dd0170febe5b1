"""What was bought, held and promised, and is altered behind the guards, is found and named."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.db.models import F

from apps.invoicing.reconciliation import reconcile_all
from apps.ledger.models import Hold
from apps.sales.models import Commitment, Contract, ContractLine, ContractQuota
from apps.sales.services import Quota, commitment_enter, quote_accept, quote_create
from tests.cast import Cast
from tests.invoicing.test_reconciling import behind_their_back
from tests.sales.market import NOW, open_market
from tests.sales.test_contracts import sold

pytestmark = pytest.mark.django_db


def test_what_was_bought_held_and_promised_is_compared_too(cast: Cast) -> None:
    market = open_market()
    sold(cast, market, executions=7000)
    quote = quote_create(
        organisation=cast.organisation,
        lines=Quota("float32", 500),
        klass="standard",
        pool=market.lpu,
        actor=None,
        now=NOW,
    )
    quote_accept(quote_id=quote.id, organisation=cast.organisation, actor=None, now=NOW)
    commitment_enter(organisation=cast.organisation, kind="year", minimum=Decimal(90), actor=None, now=NOW)
    assert reconcile_all(cast.organisation).differences == []
    for model, column, said in (
        (Contract, "net", "its net is not that of its quote"),
        (ContractLine, "executions", "the executions that may be used"),
        (ContractQuota, "operations", "the operations that may be used"),
        (Hold, "amount", " EUR are held, not "),
        (Commitment, "minimum", "it is not the one that was entered"),
        (Commitment, "factor", "it is not the one that was entered"),
    ):
        with behind_their_back(model._meta.db_table):
            assert model._default_manager.update(**{column: F(column) * Decimal("0.9")})
            found = reconcile_all(cast.organisation).differences
        owner = Commitment.objects.get() if model is Commitment else Contract.objects.filter(lines=None).get()
        if model is ContractLine:
            owner = Contract.objects.exclude(lines=None).get()
        name = f"{owner._meta.verbose_name} {owner.pk}"
        assert any(sentence.startswith(name) and said in sentence for sentence in found), found
    with behind_their_back("sales_contract"):
        Contract.objects.update(terms_digest="0" * 64)
        found = reconcile_all(cast.organisation).differences
    assert sum("its terms are not those that were agreed" in sentence for sentence in found) == 2
