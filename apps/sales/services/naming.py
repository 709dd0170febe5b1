"""The names that customers give to quotes and contracts."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction

from apps.accounts.counters import name_clean
from apps.accounts.models import Organisation, User
from apps.accounts.services import audit_record
from apps.sales.models import Contract, Quote


@transaction.atomic
def quote_rename(*, quote_id: UUID, organisation: Organisation, name: str, actor: User | None, now: datetime) -> Quote:
    """Set the name of a quote; an empty name removes it. Raises Problem(422)."""
    quote = Quote.objects.select_for_update(no_key=True).get(pk=quote_id, organisation=organisation)
    _rename(quote, name, organisation, actor, now)
    return quote


@transaction.atomic
def contract_rename(
    *, contract_id: UUID, organisation: Organisation, name: str, actor: User | None, now: datetime
) -> Contract:
    """Set the name of a contract; an empty name removes it. Raises Problem(422)."""
    contract = Contract.objects.select_for_update(no_key=True).get(pk=contract_id, organisation=organisation)
    _rename(contract, name, organisation, actor, now)
    return contract


def _rename(row: Quote | Contract, name: str, organisation: Organisation, actor: User | None, now: datetime) -> None:
    name = name_clean(name)
    if name == row.name:
        return
    before, row.name = row.name, name
    row.save(update_fields=["name"])
    audit_record(
        action=f"{row.number_kind}.rename",
        subject=f"{row.number_kind} {row.pk}",
        actor=actor,
        organisation=organisation,
        now=now,
        detail={"from": before, "to": name},
    )
