"""Issues invoices, and sets spend caps and billing addresses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from apps.accounts.failpoints import failpoint
from apps.accounts.models import Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.figures import money_exact_format
from apps.invoicing.drafting import Draft, currencies_open, document_of_draft, invoice_draft, organisations_with_minimum
from apps.invoicing.models import (
    BillingProfile,
    Invoice,
    InvoiceCounter,
    InvoicedUsage,
    InvoiceLine,
    InvoiceState,
    KeptDraft,
)
from apps.invoicing.payments import provider_default
from apps.invoicing.services.granting import grant_uses_store
from apps.invoicing.services.settling import balance_apply, event_write
from apps.ledger.identity import identity as identity_of
from apps.ledger.models import AccountKind, Cap, UsageRow
from apps.ledger.posting import chain_lock, transaction_post
from apps.ledger.selectors import month_of
from apps.ledger.services import cap_set
from apps.pricing.rating import RULES, decimal_text, digest_of, exact_sum
from apps.pricing.rating.decimals import subtract
from apps.sales.documents import stamp
from apps.sales.models import Commitment


@transaction.atomic
def invoice_issue(
    *,
    organisation: Organisation,
    until: datetime | None = None,
    currency: str | None = None,
    actor: User | None,
    now: datetime,
    carry: bool = False,
) -> Invoice:
    """Issue the invoice for all uninvoiced usage before `until` (by default, now).

    The default currency is the first with something to invoice. Raises Problem if there is nothing to invoice. With
    `carry`, also raises Problem if the total is below the currency's smallest unit.
    """
    # The chain serialises invoices of one organisation and postings of usage, so no usage is missed.
    chain_lock(organisation.id)
    until = min(until or now, now)
    draft = invoice_draft(organisation=organisation, until=until, currency=currency)
    if draft is None:
        of = f"usage in {currency}" if currency else "usage"
        raise Problem(
            409,
            "Nothing to invoice",
            f"All {of} before {until:%Y-%m-%d %H:%M} UTC has already been invoiced.",
            kind="nothing-to-invoice",
        )
    if carry and not draft.adjustments and draft.rounded.exact < Decimal(1).scaleb(-draft.exponent):
        raise Problem(
            409,
            "Below the smallest unit",
            f"{money_exact_format(draft.net, draft.currency)} moves to the next invoice.",
            kind="carried",
        )
    invoice = _store(draft, actor=actor, now=now)
    failpoint("invoice.stored")
    KeptDraft.objects.filter(
        organisation=organisation, currency=invoice.currency
    ).delete()  # its content is invoiced now
    _post(invoice, draft, now=now)
    failpoint("invoice.posted")
    grant_uses_store(invoice, draft.adjustments, now=now)
    balance_apply(invoice, now=now)
    event_write(invoice, "invoice.issued", now=now)
    audit_record(
        action="invoice.issue",
        subject=f"invoice {invoice.number}",
        actor=actor,
        organisation=organisation,
        now=now,
        detail={"digest": invoice.digest, "net": decimal_text(draft.net), "due": decimal_text(draft.due)},
    )
    return invoice


def invoices_issue_month(*, now: datetime) -> int:
    """Issue the invoices for last month. Return the number of invoices."""
    month_start, _ = month_of(now)
    waiting = UsageRow.objects.filter(created_at__lt=month_start, invoiced__isnull=True).values("organisation")
    promised = Commitment.objects.filter(period__startswith__lt=month_start).values("organisation")
    issued = 0
    lacking = organisations_with_minimum(until=month_start).values("pk")
    buyers = Organisation.objects.filter(Q(pk__in=waiting) | Q(pk__in=promised) | Q(pk__in=lacking))
    for organisation, currency in ((one, code) for one in buyers for code in currencies_open(one, until=month_start)):
        try:
            invoice_issue(
                organisation=organisation, until=month_start, currency=currency, actor=None, now=now, carry=True
            )
        except Problem as refusal:  # too little, no shortfall, or issued by somebody else meanwhile
            if refusal.kind not in {"nothing-to-invoice", "carried"}:
                raise
        else:
            issued += 1
    return issued


@transaction.atomic
def cap_change(
    *,
    organisation: Organisation,
    amount: Decimal | None,
    currency: str,
    actor: User,
    now: datetime,
    project_id: UUID | None = None,
    token_id: UUID | None = None,
) -> Cap | None:
    """Set the monthly spend cap of an organisation, project or API token in one currency. None removes the cap."""
    cap = cap_set(
        organisation=organisation, amount=amount, currency=currency, now=now, project_id=project_id, token_id=token_id
    )
    scope = f"project {project_id}" if project_id else f"token {token_id}" if token_id else str(organisation.id)
    audit_record(
        action="cap.set",
        subject=scope,
        actor=actor,
        organisation=organisation,
        now=now,
        detail={"amount": None if amount is None else decimal_text(amount), "currency": currency},
    )
    return cap


@transaction.atomic
def profile_set(
    *, organisation: Organisation, legal_name: str, address: str, tax_id: str, actor: User, now: datetime
) -> BillingProfile:
    """Set an organisation's billing address."""
    profile, _ = BillingProfile.objects.update_or_create(
        organisation=organisation, defaults={"legal_name": legal_name, "address": address, "tax_id": tax_id}
    )
    audit_record(
        action="billing.profile", subject=str(organisation.id), actor=actor, organisation=organisation, now=now
    )
    return profile


def _store(draft: Draft, *, actor: User | None, now: datetime) -> Invoice:
    number = _number(now)
    invoice_id = identity_of(draft.organisation.id, "invoice", number)
    profile = BillingProfile.objects.filter(organisation=draft.organisation).first()
    due_at = now + timedelta(days=profile.payment_days if profile else 14)
    identity = {
        "id": str(invoice_id),
        "number": number,
        "issued_at": stamp(now),
        "due_at": stamp(due_at),
        "addressee": {
            "name": (profile and profile.legal_name) or draft.organisation.name,
            "address": profile.address if profile else "",
            "tax_id": profile.tax_id if profile else "",
        },
    }
    document = document_of_draft(draft, identity=identity)
    nothing_to_pay = draft.due == 0
    invoice = Invoice.objects.create(
        id=invoice_id,
        organisation=draft.organisation,
        number=number,
        sequence=(draft.previous.sequence if draft.previous else 0) + 1,
        period_start=draft.period_start,
        period_end=draft.period_end,
        currency=draft.currency,
        net=draft.net,
        carried_in=draft.carried_in,
        carried_out=draft.rounded.carried,
        correction=draft.rounded.correction,
        payable=draft.rounded.payable,
        tax=draft.tax,
        tax_carried=subtract(draft.taxed.carried, draft.asked.tax_carried),
        due=draft.due,
        open=draft.due,
        rules=RULES,
        document=document,
        digest=digest_of(document),
        provider=provider_default(due=draft.due, currency=draft.currency),
        issued_at=now,
        issued_by=actor,
        due_at=due_at,
        state=InvoiceState.PAID if nothing_to_pay else InvoiceState.ISSUED,
        paid_at=now if nothing_to_pay else None,
        payment_reference="nothing to pay" if nothing_to_pay else "",
    )
    _lines_store(invoice, draft)
    return invoice


def _lines_store(invoice: Invoice, draft: Draft) -> None:
    for index, (line, share) in enumerate(zip(draft.lines, draft.shares, strict=False), 1):
        stored = InvoiceLine.objects.create(
            invoice=invoice,
            number=index,
            kind=line.kind,
            contract=line.contract,
            quantity=line.rating.executions,
            amount=line.rating.amount,
            share=share,
        )
        InvoicedUsage.objects.bulk_create([InvoicedUsage(usage=row, line=stored) for row in line.rows])


def _post(invoice: Invoice, draft: Draft, *, now: datetime) -> None:
    # The carried remainder stays accrued.
    settled = subtract(draft.rounded.exact, draft.rounded.carried)
    adjusted = exact_sum(one.amount for one in draft.adjustments)
    amounts = {
        AccountKind.RECEIVABLE: invoice.due,
        AccountKind.TAX: invoice.tax.copy_negate(),
        AccountKind.ACCRUED: subtract(adjusted, settled),
        AccountKind.ROUNDING: draft.rounded.correction,
    }
    for one in draft.adjustments:
        amounts[one.account] = subtract(amounts.get(one.account, Decimal(0)), one.amount)
    if not any(amounts.values()):
        return
    transaction_post(
        organisation_id=invoice.organisation_id,
        kind="invoice",
        idempotency_key=f"invoice:{invoice.id}:issue",
        subject=f"invoice {invoice.number}",
        currency=invoice.currency,
        amounts=amounts,
        detail={"digest": invoice.digest},
        now=now,
    )


def _number(now: datetime) -> str:
    year = now.astimezone(UTC).year
    InvoiceCounter.objects.bulk_create([InvoiceCounter(year=year)], ignore_conflicts=True)
    counter = InvoiceCounter.objects.select_for_update().get(year=year)
    counter.last += 1
    counter.save(update_fields=["last"])
    return f"T-{year}-{counter.last:06d}"
