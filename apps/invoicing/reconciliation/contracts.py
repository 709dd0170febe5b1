"""Checks quotes, contracts and commitments against their digests and holds."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from django.db.models import Exists, OuterRef

from apps.accounts.models import AuditEntry
from apps.invoicing.reconciliation.postings import digest_follows, figures_differ
from apps.ledger.altered import compared
from apps.ledger.models import Hold, HoldState
from apps.ledger.selectors import hold_of
from apps.pricing.rating import decimal_text
from apps.sales.contract_minimum import minimum_quoted
from apps.sales.late_cancellation import late_term
from apps.sales.models import Commitment, Contract, ContractState, Quote, StandingRequest
from apps.sales.releasing import late_due
from apps.sales.request_lines import request_lines_of
from apps.sales.selectors import contract_usage
from apps.sales.services.contract_terms import terms_of

AT_ONCE = 100  # documents
NAMED: tuple[tuple[type[Quote | Contract], str], ...] = (
    (Quote, "pool"),
    (Quote, "amends"),
    (Contract, "pool"),
    (Contract, "commitment"),
)


def contract_differences(organisation_id: UUID) -> list[str]:
    """Return a sentence for each difference found in the quotes, contracts, standing requests and commitments."""
    found = []
    for quote in Quote.objects.filter(organisation_id=organisation_id).order_by("created_at", "id").iterator(AT_ONCE):
        found += _quote_compared(quote)
    contracts = Contract.objects.filter(organisation_id=organisation_id).order_by("accepted_at", "id")
    # Prefetched, not joined: a join would hide a contract whose quote is missing.
    for contract in contracts.select_related("quota").prefetch_related("quote", "lines").iterator(AT_ONCE):
        found += _contract_compared(contract, _quote_of(contract))
    found += _requests(organisation_id)
    for commitment in Commitment.objects.filter(organisation_id=organisation_id).order_by("accepted_at", "id"):
        found += _promised(commitment)
    return found + [sentence for model, name in NAMED for sentence in _lost(model, name, organisation_id)]


def _lost(model: type[Quote | Contract], name: str, organisation_id: UUID) -> list[str]:
    field = model._meta.get_field(name)
    there = field.remote_field.model._default_manager.filter(pk=OuterRef(field.attname))  # type: ignore[union-attr]
    rows = model._default_manager.filter(organisation_id=organisation_id).exclude(**{name: None})
    lost = rows.filter(~Exists(there)).order_by("id").values_list("id", flat=True)
    return [f"{model._meta.verbose_name} {pk}: the {name} that it names is not there any more" for pk in lost]


def _quote_of(contract: Contract) -> Quote | None:
    try:
        return contract.quote
    except Quote.DoesNotExist:
        return None


def _quote_compared(quote: Quote) -> list[str]:
    return compared(f"quote {quote.id}", lambda: _quote(quote))


def _quote(quote: Quote) -> list[str]:
    name = f"quote {quote.id}"
    if not digest_follows(quote.document, quote.digest):
        return [f"{name}: its document is not the one that was made"]
    found = figures_differ(name, quote, quote.document, {"worst": "net", "expected": "expected"})
    if quote.document["currency"]["code"] != quote.currency:
        found.append(f"{name}: its currency is {quote.currency}, and its document says another one")
    return found


def _contract_compared(contract: Contract, quote: Quote | None) -> list[str]:
    return compared(f"contract {contract.id}", lambda: _contract(contract, quote))


def _contract(contract: Contract, quote: Quote | None) -> list[str]:
    name = f"contract {contract.id}"
    found = []
    if not digest_follows(contract.terms, contract.terms_digest):
        found.append(f"{name}: its terms are not those that were agreed")
    if quote is None:
        return [*found, f"{name}: the quote that it was made from is not there any more"]
    if not found and contract.terms != terms_of(quote):
        found.append(f"{name}: its terms are not those of its quote")
    if (contract.net, contract.currency) != (quote.worst, quote.currency):
        found.append(f"{name}: its net is not that of its quote")
    if contract.minimum != minimum_quoted(contract.terms):
        found.append(f"{name}: what it lacks to its minimum is not what its terms say")
    return found + _bought(name, contract) + _held(name, contract)


def _bought(name: str, contract: Contract) -> list[str]:
    request_lines = request_lines_of(contract.terms)
    wanted = {line.snapshot.digest: line.executions for line in request_lines if not line.snapshot.is_quota}
    kept = {line.program_digest: line.executions for line in contract.lines.all() if line.executions is not None}
    found = [] if kept == wanted else [f"{name}: the executions that may be used are not those of its terms"]
    quota = getattr(contract, "quota", None)
    stated = [(line.snapshot.precision, line.snapshot.operations) for line in request_lines if line.snapshot.is_quota]
    if stated != ([] if quota is None else [(quota.precision, quota.operations)]):
        found.append(f"{name}: the operations that may be used are not those of its terms")
    return found


def _held(name: str, contract: Contract) -> list[str]:
    hold = hold_of(contract.id)
    if hold is None:
        return [f"{name}: its hold is not there any more"]
    if (hold.amount, hold.currency) != (contract.net, contract.currency):
        return [f"{name}: {decimal_text(hold.amount)} {hold.currency} are held, not {decimal_text(contract.net)}"]
    late = _late(name, contract) if hold.state != HoldState.EXPIRED else []
    if late:
        return late
    least = Decimal(contract.terms.get("minimum", {}).get("at_least", 0))
    if contract.state != ContractState.ACTIVE and hold.state != HoldState.EXPIRED and hold.posted < least:
        return [f"{name}: it came to {decimal_text(hold.posted)}, less than its minimum of {decimal_text(least)}"]
    return []


def _requests(organisation_id: UUID) -> list[str]:
    # The hold is the full price while the request waits, and 0 after the request has ended.
    rows = list(StandingRequest.objects.filter(organisation_id=organisation_id).order_by("filed_at", "id"))
    holds = {hold.contract_id: hold for hold in Hold.objects.filter(contract_id__in=[row.pk for row in rows])}
    found = []
    for row in rows:
        hold = holds.get(row.pk)
        if hold is None or (hold.amount, hold.currency, hold.posted) != (row.most, row.currency, 0):
            found.append(f"standing request {row.id}: what is held is not its price")
        elif (hold.state == HoldState.PENDING) != row.is_waiting:
            found.append(f"standing request {row.id}: it is {row.state}, and its hold is {hold.state}")
    return found


def _late(name: str, contract: Contract) -> list[str]:
    if contract.closed_at is None or late_term(contract.terms) is None:
        return []
    charged = contract_usage(contract).late
    amended = Contract.objects.filter(quote__amends=contract.pk).select_related("quote").first()
    carried = {} if amended is None else amended.quote.document["amends"].get("carried", {})
    due = late_due(contract, closed_at=contract.closed_at, carried=carried)
    if charged == due:
        return []
    return [f"{name}: {decimal_text(charged)} were charged for late cancellation, its windows say {decimal_text(due)}"]


def _promised(commitment: Commitment) -> list[str]:
    name = f"commitment {commitment.id}"
    entries = AuditEntry.objects.filter(action="commitment.enter", subject=name).order_by("id")
    stated = {
        "kind": commitment.kind,
        "minimum": decimal_text(commitment.minimum),
        "factor": decimal_text(commitment.factor),
    }
    details = list(entries.values_list("detail", flat=True))
    return [] if details == [stated] else [f"{name}: it is not the one that was entered"]
