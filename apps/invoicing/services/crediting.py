"""Issues credit notes, which correct issued invoices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Decimal
from uuid import UUID

from django.db import transaction
from django.db.models import Sum

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.figures import money_format
from apps.invoicing.models import (
    CreditNote,
    CreditNoteCounter,
    CreditNoteLine,
    CreditUse,
    DisputeState,
    FactKind,
    Invoice,
    InvoiceLine,
    InvoiceState,
    SettlementKind,
    StripeFact,
)
from apps.invoicing.outbox import outbox_write
from apps.invoicing.services.credit_lines import (
    CARRIED,
    Part,
    adjustments_by_number,
    credit_lines,
    line_amounts,
    part_account,
    title_of,
)
from apps.invoicing.services.settling import change_lock, settle
from apps.ledger.identity import identity
from apps.ledger.models import AccountKind, Entry
from apps.ledger.posting import transaction_post
from apps.ledger.selectors import moved
from apps.pricing.amounts import amount_check
from apps.pricing.rating import decimal_text, digest_of, exact_sum
from apps.pricing.rating.decimals import subtract
from apps.sales.documents import stamp

FORMAT = "takt-credit-note/1"
# Accounts of money that the customer has back, and the facts that moved it.
RETURN_ACCOUNTS = (AccountKind.BAD_DEBT, AccountKind.REFUND)
RETURN_FACTS = (FactKind.DISPUTE_LOST, FactKind.REFUNDED, FactKind.REFUND_FAILED)


@transaction.atomic
def credit_note_issue(
    *,
    invoice_id: UUID,
    parts: Mapping[int, Decimal] | None = None,
    reason: str,
    actor: User | None,
    now: datetime,
    expected_left: Decimal | None = None,
) -> CreditNote:
    """Credit `parts`, which maps line numbers to amounts before tax. By default, credit the rest of the invoice.

    Raises Problem if the parts cannot be credited, if it is unknown whether a card was charged, or if the amount left
    to credit is not `expected_left`.
    """
    invoice = change_lock(invoice_id)
    if expected_left is not None and exact_sum(line.left for line in credit_lines(invoice)) != expected_left:
        raise Problem(
            409,
            "Invoice changed",
            "A credit note has been issued since you opened this page. Check the remaining amounts, then try again.",
            kind="credit-note",
        )
    return credit_note_write(invoice, parts, reason, actor, now)


def credit_note_write(
    invoice: Invoice,
    asked: Mapping[int, Decimal] | None,
    reason: str,
    actor: User | None,
    now: datetime,
    *,
    final: InvoiceState = InvoiceState.PAID,
) -> CreditNote:
    """Write and post a credit note, and settle the open amount with it. The invoice must be locked."""
    if not reason.strip():
        raise Problem(422, "Reason missing", "Enter a reason; it is printed on the credit note.", kind="credit-note")
    if invoice.state == InvoiceState.WRITTEN_OFF:
        raise Problem(409, "Written off", f"Invoice {invoice.number} has already been written off.", kind="credit-note")
    parts = _parts(invoice, asked)
    note = _store(invoice, parts, reason.strip()[:300], actor, now)
    settled = min(invoice.open, note.total)
    is_void = final == InvoiceState.VOID
    back = _returned_already(invoice, subtract(note.total, settled))
    amounts = issue_reversal(invoice) if is_void else note_amounts(note, invoice, parts, settled, back)
    _post(note, amounts, now)
    _credits_return(invoice, parts, now)
    if settled:
        settle(invoice, settled, SettlementKind.CREDIT_NOTE, now=now, credit_note=note, final=final)
    outbox_write(
        organisation_id=invoice.organisation_id,
        topic="credit_note.issued",
        now=now,
        payload={
            "credit_note": str(note.id),
            "invoice": str(invoice.id),
            "number": note.number,
            "total": decimal_text(note.total),
            "currency": note.currency,
        },
    )
    audit_record(
        action="credit_note.issue",
        subject=f"credit note {note.number}",
        actor=actor,
        now=now,
        organisation=invoice.organisation,
        detail={"invoice": invoice.number, "total": decimal_text(note.total)},
    )
    return note


def _parts(invoice: Invoice, asked: Mapping[int, Decimal] | None) -> list[Part]:
    if asked is not None and not any(asked.values()):
        fault = "Every amount is 0" if asked else "No amount is given"
        detail = (
            f"{fault}. Enter an amount for at least one line, or leave out all lines to credit everything that is left."
        )
        raise Problem(422, "Nothing to credit", detail, kind="credit-note")
    lines: dict[int, InvoiceLine | None] = {line.number: line for line in invoice.lines.all()}
    lines |= dict.fromkeys(adjustments_by_number(invoice))
    if invoice.carried_in:
        lines[CARRIED] = None
    numbers: Iterable[int] = lines if asked is None else asked
    found = [_part(invoice, number, lines, None if asked is None else asked[number]) for number in sorted(numbers)]
    found = [part for part in found if part.share or part.amount]
    _parts_check(invoice, found)
    return found


def _parts_check(invoice: Invoice, parts: list[Part]) -> None:
    credited = exact_sum(part.share for part in parts)
    before = invoice.credit_notes.aggregate(net=Sum("net"))["net"] or Decimal(0)
    if exact_sum([before, credited]) > invoice.payable:
        raise Problem(
            409,
            "Amount too large",
            f"Credits reduced the payable amount of invoice {invoice.number} to "
            f"{money_format(invoice.payable, invoice.document['currency'])}. Credit notes cannot exceed this amount.",
            kind="credit-note",
        )
    if not parts or credited <= 0:
        raise Problem(
            409, "Nothing is left", f"Invoice {invoice.number} has nothing left to credit.", kind="credit-note"
        )


def _part(invoice: Invoice, number: int, lines: Mapping[int, InvoiceLine | None], amount: Decimal | None) -> Part:
    if number not in lines:
        raise Problem(422, "Unknown line", f"Invoice {invoice.number} has no line {number}.", kind="credit-note")
    line = lines[number]
    share, exact = line_amounts(invoice, number, line)
    earlier = CreditNoteLine.objects.filter(credit_note__invoice=invoice, number=number)
    before = earlier.aggregate(share=Sum("share"), amount=Sum("amount"))
    left = subtract(share, before["share"] or Decimal(0))
    whole_rest, amount = amount is None, left if amount is None else amount
    if not whole_rest:
        amount_check(amount, currency=invoice.unit)
        if not 0 <= amount <= left:
            most = money_format(left, invoice.document["currency"])
            raise Problem(
                422,
                "Amount too large",
                f"At most {most} can still be credited on line {number} of invoice {invoice.number}.",
                kind="credit-note",
            )
    title = title_of(invoice, number)
    whole = amount == left and not (left == 0 and earlier.exists())
    return Part(number, line, title, amount, subtract(exact, before["amount"] or Decimal(0)) if whole else amount)


def _tax(invoice: Invoice, net: Decimal) -> Decimal:
    # A fully credited invoice returns its whole tax.
    before = invoice.credit_notes.aggregate(net=Sum("net"), tax=Sum("tax"))
    taken, done = exact_sum([before["net"] or Decimal(0), net]), before["tax"] or Decimal(0)
    if taken == invoice.payable:
        return subtract(invoice.tax, done)
    unit = Decimal(1).scaleb(-invoice.exponent)
    rate = Decimal(invoice.document["tax_rate"])
    return max(subtract(min((taken * rate).quantize(unit, rounding=ROUND_HALF_EVEN), invoice.tax), done), Decimal(0))


def _store(invoice: Invoice, parts: list[Part], reason: str, actor: User | None, now: datetime) -> CreditNote:
    net = exact_sum(part.share for part in parts)
    tax = _tax(invoice, net)
    number = _number(now)
    note_id = identity(invoice.organisation_id, "credit-note", number)
    document = {
        "format": FORMAT,
        "id": str(note_id),
        "number": number,
        "issued_at": stamp(now),
        "invoice": {"id": str(invoice.id), "number": invoice.number, "digest": invoice.digest},
        "organisation": invoice.document["organisation"],
        "addressee": invoice.document["addressee"],
        "currency": invoice.document["currency"],
        "reason": reason,
        "lines": [
            {
                "number": part.number,
                "title": part.title,
                "share": decimal_text(part.share),
                "amount": decimal_text(part.amount),
            }
            for part in parts
        ],
        "net": decimal_text(net),
        "tax_rate": invoice.document["tax_rate"],
        "tax": decimal_text(tax),
        "total": decimal_text(exact_sum([net, tax])),
    }
    note = CreditNote.objects.create(
        id=note_id,
        organisation_id=invoice.organisation_id,
        invoice=invoice,
        number=number,
        currency=invoice.currency,
        net=net,
        tax=tax,
        total=exact_sum([net, tax]),
        reason=reason,
        document=document,
        digest=digest_of(document),
        issued_at=now,
        issued_by=actor,
    )
    CreditNoteLine.objects.bulk_create(
        CreditNoteLine(credit_note=note, line=part.line, number=part.number, share=part.share, amount=part.amount)
        for part in parts
    )
    return note


def _returned_already(invoice: Invoice, beyond: Decimal) -> dict[AccountKind, Decimal]:
    # Lost disputes and refunds returned this money at our cost; the credit note reverses both accounts.
    if beyond and invoice.dispute == DisputeState.OPEN:
        raise Problem(
            409,
            "Disputed",
            f"The payment of invoice {invoice.number} is disputed. Issue the credit note after the dispute has been decided.",
            kind="invoice-disputed",
        )
    keys, found = [*keys_of_notes(invoice), *keys_of_facts(invoice)], {}
    for account in RETURN_ACCOUNTS:
        there = max(moved(invoice.organisation_id, keys, account), Decimal(0))
        found[account] = min(beyond, there)
        beyond = subtract(beyond, found[account])
    return found


def keys_of_notes(invoice: Invoice) -> list[str]:
    """Return the posting keys of an invoice's credit notes."""
    return [f"credit-note:{pk}" for pk in invoice.credit_notes.order_by("number").values_list("pk", flat=True)]


def keys_of_facts(invoice: Invoice) -> list[str]:
    """Return the posting keys of an invoice's disputes and refunds at Stripe."""
    facts = StripeFact.objects.filter(invoice=invoice, kind__in=RETURN_FACTS)
    return [fact.posting_key for fact in facts.order_by("id")]


def note_amounts(
    note: CreditNote, invoice: Invoice, parts: list[Part], settled: Decimal, back: Mapping[AccountKind, Decimal]
) -> dict[AccountKind, Decimal]:
    """Return the amounts that a credit note posts, by account.

    `settled` is the amount that settles the invoice. `back` is the amount that the customer has already received. The
    remaining credit is added to the customer's balance.
    """
    amounts: dict[AccountKind, Decimal] = {
        AccountKind.ROUNDING: subtract(note.net, exact_sum(part.amount for part in parts)),
        AccountKind.TAX: note.tax,
        AccountKind.RECEIVABLE: settled.copy_negate(),
        **{account: back[account].copy_negate() for account in RETURN_ACCOUNTS},
        AccountKind.PREPAID: subtract(exact_sum([settled, *back.values()]), note.total),
    }
    for part in parts:
        account = part_account(invoice, part)
        amounts[account] = exact_sum([amounts.get(account, Decimal(0)), part.amount])
    return amounts


def issue_reversal(invoice: Invoice) -> dict[AccountKind, Decimal]:
    """Return the amounts that reverse the posting made when the invoice was issued."""
    issued = Entry.objects.filter(
        transaction__organisation_id=invoice.organisation_id, transaction__idempotency_key=f"invoice:{invoice.id}:issue"
    )
    entries = issued.order_by("id").values_list("account__kind", "amount")
    return {AccountKind(kind): amount.copy_negate() for kind, amount in entries}


def _post(note: CreditNote, amounts: dict[AccountKind, Decimal], now: datetime) -> None:
    transaction_post(
        organisation_id=note.organisation_id,
        kind="credit-note",
        idempotency_key=f"credit-note:{note.id}",
        subject=f"credit note {note.number}",
        currency=note.currency,
        amounts=amounts,
        detail={"digest": note.digest, "invoice": note.invoice.number},
        now=now,
    )


def _credits_return(invoice: Invoice, parts: list[Part], now: datetime) -> None:
    for part in parts:
        grant = adjustments_by_number(invoice).get(part.number, {}).get("basis", {}).get("grant")
        if grant is not None and part.amount:
            CreditUse.objects.create(grant_id=UUID(grant), invoice=invoice, amount=part.amount, at=now)


def _number(now: datetime) -> str:
    year = now.astimezone(UTC).year
    CreditNoteCounter.objects.bulk_create([CreditNoteCounter(year=year)], ignore_conflicts=True)
    counter = CreditNoteCounter.objects.select_for_update().get(year=year)
    counter.last += 1
    counter.save(update_fields=["last"])
    return f"C-{year}-{counter.last:06d}"
