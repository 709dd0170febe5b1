"""Compares the open amount in reminders with settlements and outbox messages."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from uuid import UUID

from apps.invoicing.models import DunningStep, Settlement, SettlementKind
from apps.invoicing.reconciliation.postings import Postings
from apps.ledger.altered import compared
from apps.ledger.models import OutboxRow
from apps.pricing.rating import decimal_text
from apps.pricing.rating.decimals import subtract

TOPIC = "invoice.reminder"


def reminder_differences(organisation_id: UUID, postings: Postings) -> list[str]:
    """Return a sentence for each difference found in the organisation's reminders."""
    messages = _messages(organisation_id)
    settled = _settled(organisation_id, postings)
    found = []
    steps = DunningStep.objects.filter(invoice__organisation_id=organisation_id).order_by("id")
    for step in steps.select_related("invoice"):
        stated = messages.pop((str(step.invoice_id), str(step.level)), None)
        found += _compared(step, stated, settled[step.invoice_id])
    return found + [
        f"reminder {level} of invoice {invoice} was sent, and is not there any more"
        for invoice, level in sorted(messages)
    ]


def _compared(step: DunningStep, stated: str | None, settled: list[Decimal]) -> list[str]:
    return compared(f"invoice {step.invoice.number}, reminder {step.level}", lambda: _step(step, stated, settled))


def _step(step: DunningStep, stated: str | None, settled: list[Decimal]) -> list[str]:
    # Settlements are in the order of the chain, because the clocks of processes can differ.
    name, kept = f"invoice {step.invoice.number}, reminder {step.level}", decimal_text(step.open)
    found = []
    if stated != kept:
        found.append(f"{name}: {kept} was open, and {stated or 'nothing'} was sent")
    rest, possible = step.invoice.due, [step.invoice.due]
    for amount in settled:
        rest = subtract(rest, amount)
        possible.append(rest)
    if step.open not in possible or step.open <= 0:
        found.append(f"{name}: {kept} was open, and what settled the invoice left {decimal_text(possible[-1])}")
    return found


def _messages(organisation_id: UUID) -> dict[tuple[str, str], str]:
    rows = OutboxRow.objects.filter(organisation_id=organisation_id, topic=TOPIC).order_by("id")
    stated = [payload for payload in rows.values_list("payload", flat=True) if isinstance(payload, dict)]
    return {(str(one.get("invoice")), str(one.get("level"))): str(one.get("open")) for one in stated}


def _settled(organisation_id: UUID, postings: Postings) -> defaultdict[UUID, list[Decimal]]:
    places = {key: place for place, key in enumerate(postings.by_key)}  # in the order of the chain
    rows = Settlement.objects.filter(invoice__organisation_id=organisation_id).order_by("at", "id")
    found: defaultdict[UUID, list[Decimal]] = defaultdict(list)
    for one in sorted(rows, key=lambda row: places.get(_key(row), len(places))):
        found[one.invoice_id].append(one.amount)
    return found


def _key(row: Settlement) -> str:
    if row.payment_id is not None:
        return f"payment:{row.payment_id}"
    if row.credit_note_id is not None:
        return f"credit-note:{row.credit_note_id}"
    ends = {SettlementKind.WRITE_OFF: "write-off", SettlementKind.BALANCE: "balance"}
    back = "-back" if row.amount.is_signed() else ""
    return f"invoice:{row.invoice_id}:{ends.get(SettlementKind(row.kind), '')}{back}"
