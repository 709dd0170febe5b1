"""A cap for each currency: none is exceeded, none is ignored, and what none was said for is refused with what to do."""

from __future__ import annotations

from decimal import Decimal
from uuid import uuid4

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.accounts.models import Organisation
from apps.ledger.models import Hold
from apps.ledger.selectors import cap_of, caps_like, caps_of, spending
from apps.ledger.services import CapMissing, CapReached, cap_set, hold_place
from apps.registry.models import Project
from tests.cast import Cast
from tests.ledger.money import NOW

pytestmark = pytest.mark.django_db
PLACES = {"JPY": 0, "EUR": 2, "KWD": 3}
codes = st.sampled_from(sorted(PLACES))
acts = st.tuples(st.sampled_from(["cap", "hold", "hold", "hold"]), codes, st.booleans(), st.none() | st.integers(0, 40))


def _hold(organisation: Organisation, amount: Decimal, currency: str, project: Project | None = None) -> Hold:
    contract_id = uuid4()
    return hold_place(
        organisation_id=organisation.id,
        contract_id=contract_id,
        amount=amount,
        currency=currency,
        idempotency_key=f"contract:{contract_id}",
        now=NOW,
        project_id=project.pk if project else None,
    )


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(acts, max_size=12))
def test_whatever_is_capped_and_bought_no_cap_is_exceeded_or_ignored(
    cast: Cast, steps: list[tuple[str, str, bool, int | None]]
) -> None:
    with transaction.atomic():
        project = Project.objects.create(organisation=cast.organisation, name="Cameras", created_at=NOW)
        caps: dict[tuple[bool, str], Decimal] = {}
        committed: dict[tuple[bool, str], Decimal] = {}
        for what, code, of_project, units in steps:
            amount = None if units is None else Decimal(units).scaleb(-PLACES[code])
            if what == "cap":
                cap_set(
                    organisation=cast.organisation,
                    amount=amount,
                    currency=code,
                    now=NOW,
                    project_id=project.pk if of_project else None,
                )
                caps.pop((of_project, code), None)
                caps.update({(of_project, code): amount} if amount is not None else {})
            elif amount:
                _buy(cast.organisation, project if of_project else None, amount, code, caps, committed)
        assert {(cap.project_id is not None, cap.currency): cap.amount for cap in caps_of(cast.organisation.id)} == caps
        for (of_project, code), most in caps.items():
            spent = spending(
                organisation_id=cast.organisation.id,
                currency=code,
                now=NOW,
                project_id=project.pk if of_project else None,
            )
            assert spent.committed == committed.get((of_project, code), 0)
            cap = cap_of(cast.organisation.id, currency=code, project_id=project.pk if of_project else None)
            assert cap is not None
            assert cap.amount == most
        transaction.set_rollback(True)


def _buy(
    organisation: Organisation,
    project: Project | None,
    amount: Decimal,
    code: str,
    caps: dict[tuple[bool, str], Decimal],
    committed: dict[tuple[bool, str], Decimal],
) -> None:
    """A hold goes through just where every scope that it touches has no cap at all, or one in its currency with room."""
    expected: type[Exception] | None = None
    for scope in (False, True) if project else (False,):
        if not any(kind == scope for kind, _ in caps):
            continue
        if (scope, code) not in caps:
            expected = CapMissing
            break
        if committed.get((scope, code), Decimal(0)) + amount > caps[scope, code]:
            expected = CapReached
            break
    if expected is not None:
        with pytest.raises(expected):
            _hold(organisation, amount, code, project)
        return
    _hold(organisation, amount, code, project)
    for scope in (False, True) if project else (False,):
        committed[scope, code] = committed.get((scope, code), Decimal(0)) + amount


def test_a_cap_in_another_currency_says_what_to_do(cast: Cast) -> None:
    cap_set(organisation=cast.organisation, amount=Decimal(100), currency="EUR", now=NOW)
    with pytest.raises(CapMissing) as refused:
        _hold(cast.organisation, Decimal(1), "JPY")
    assert refused.value.kind == "spend-cap-currency"
    assert refused.value.detail == (
        "The spend cap is in EUR, but this work is priced in JPY. Ask an owner or a billing person to set a cap in JPY or "
        "to remove the cap in EUR (/portal/caps)."
    )
    cap_set(organisation=cast.organisation, amount=Decimal(150), currency="JPY", now=NOW)
    assert sorted(caps_like(cast.organisation.id)) == ["EUR", "JPY"]
    _hold(cast.organisation, Decimal(150), "JPY")
    _hold(cast.organisation, Decimal(100), "EUR")
    with pytest.raises(CapReached) as reached:
        _hold(cast.organisation, Decimal(1), "JPY")
    assert "JPY\u202f1, but only JPY\u202f0 of this month's cap of JPY\u202f150 is left" in reached.value.detail
    assert reached.value.errors[0]["currency"] == "JPY"
