"""Credit notes: an issued invoice never changes, what was wrong is taken back by a paper of its own and a reversal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any
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
from apps.invoicing.services.settling import change_lock, settle
from apps.ledger.identity import identity
from apps.ledger.models import AccountKind, Entry
from apps.ledger.posting import transaction_post
from apps.ledger.selectors import moved
from apps.pricing.amounts import amount_check
from apps.pricing.rating import decimal_text, digest_of, exact_sum
from apps.pricing.rating.decimals import subtract
from apps.sales.documents import stamp
from apps.sales.exports import line_title

FORMAT = "takt-credit-note/1"
ACCOUNTS = {
    "minimum": AccountKind.BREAKAGE,
    "shortfall": AccountKind.BREAKAGE,
    "free-tier": AccountKind.PROMOTION,
    "carried": AccountKind.REVENUE,
}
# Where money shows that the customer has back, and the facts that moved it there or out of the balance.
GIVEN_BACK = (AccountKind.BAD_DEBT, AccountKind.REFUND)
MOVED_BACK = (FactKind.DISPUTE_LOST, FactKind.REFUNDED, FactKind.REFUND_FAILED)
CARRIED = 0  # the number of what the invoice carried in


@dataclass(frozen=True)
class Part:
    """What is taken back of one line: `share` in minor units, `amount` exact (the same, but for the last part)."""

    number: int
    line: InvoiceLine | None
    title: str
    share: Decimal
    amount: Decimal


@dataclass(frozen=True)
class CreditLine:
    """A line of an invoice as a credit note sees it: its share of the rounded total, and what of that is left."""

    number: int
    title: str
    share: Decimal
    left: Decimal


def credit_lines(invoice: Invoice) -> list[CreditLine]:
    """Every line with what may still be taken back of it."""
    lines = {line.number: line for line in invoice.lines.all()}
    numbers = [*lines, *_adjustments(invoice), *([CARRIED] if invoice.carried_in else [])]
    taken = dict(
        CreditNoteLine.objects.filter(credit_note__invoice=invoice)
        .order_by()
        .values_list("number")
        .annotate(share=Sum("share"))
    )
    found = []
    for number in sorted(numbers):
        share, _ = _worth(invoice, number, lines.get(number))
        left = subtract(share, taken.get(number) or Decimal(0))
        found.append(CreditLine(number, _title(invoice, number), share, left))
    return found


@transaction.atomic
def credit_note_issue(
    *, invoice_id: UUID, parts: Mapping[int, Decimal] | None = None, reason: str, actor: User | None, now: datetime
) -> CreditNote:
    """Take back the rest of an invoice, or `parts` of it (line number -> amount before tax, at most what is left).

    A line that is taken back whole is reversed to its last digit; its tax follows, so that all parts together give the
    invoice's tax. What was open is settled, the rest is the customer's balance. Raises Problem, also while it is not known
    whether a card was charged for the invoice.
    """
    invoice = change_lock(invoice_id)
    return note_write(invoice, parts, reason, actor, now)


def note_write(
    invoice: Invoice,
    asked: Mapping[int, Decimal] | None,
    reason: str,
    actor: User | None,
    now: datetime,
    *,
    final: InvoiceState = InvoiceState.PAID,
) -> CreditNote:
    """Write, post and settle a credit note over a locked invoice; one that makes it void reverses how it was issued."""
    if not reason.strip():
        raise Problem(422, "Reason missing", "Say on the credit note why it is issued.", kind="credit-note")
    if invoice.state == InvoiceState.WRITTEN_OFF:
        raise Problem(409, "Written off", f"Invoice {invoice.number} is written off already.", kind="credit-note")
    parts = _parts(invoice, asked)
    note = _store(invoice, parts, reason.strip()[:300], actor, now)
    settled = min(invoice.open, note.total)
    is_void = final == InvoiceState.VOID
    back = _given_back(invoice, subtract(note.total, settled))
    amounts = issue_reversed(invoice) if is_void else note_amounts(note, invoice, parts, settled, back)
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
    lines: dict[int, InvoiceLine | None] = {line.number: line for line in invoice.lines.all()}
    lines |= dict.fromkeys(_adjustments(invoice))
    if invoice.carried_in:
        lines[CARRIED] = None
    if asked is not None and not any(asked.values()):
        said = "Every amount is 0" if asked else "There are no parts"
        detail = f"{said}: state what to take back of which line, or name no parts to take back all that is left."
        raise Problem(422, "Nothing to credit", detail, kind="credit-note")
    wanted: Iterable[int] = lines if asked is None else asked
    found = [_part(invoice, number, lines, None if asked is None else asked[number]) for number in sorted(wanted)]
    found = [part for part in found if part.share or part.amount]
    before = invoice.credit_notes.aggregate(net=Sum("net"))["net"] or Decimal(0)
    if exact_sum([before, *(part.share for part in found)]) > invoice.payable:
        raise Problem(
            409,
            "More than was asked",
            f"Credits reduced invoice {invoice.number}; no more than its payable "
            f"{money_format(invoice.payable, invoice.document['currency'])} can be taken back.",
            kind="credit-note",
        )
    if not found or exact_sum(part.share for part in found) <= 0:
        raise Problem(
            409, "Nothing is left", f"Nothing of invoice {invoice.number} is left to credit.", kind="credit-note"
        )
    return found


def _part(invoice: Invoice, number: int, lines: Mapping[int, InvoiceLine | None], amount: Decimal | None) -> Part:
    """One part; None for all that is left of the line."""
    if number not in lines:
        raise Problem(422, "No such line", f"Invoice {invoice.number} has no line {number}.", kind="credit-note")
    line = lines[number]
    share, exact = _worth(invoice, number, line)
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
                "Not possible",
                f"Of line {number} of invoice {invoice.number} at most {most} is left to credit.",
                kind="credit-note",
            )
    title = _title(invoice, number)
    whole = amount == left and not (left == 0 and earlier.exists())
    return Part(number, line, title, amount, subtract(exact, before["amount"] or Decimal(0)) if whole else amount)


def _adjustments(invoice: Invoice) -> dict[int, dict[str, Any]]:
    """The invoice's named lines beside usage, by number."""
    return {one["number"]: one for one in invoice.document.get("adjustments", [])}


def _worth(invoice: Invoice, number: int, line: InvoiceLine | None) -> tuple[Decimal, Decimal]:
    """A line's share of the rounded total, and its exact amount."""
    if line is not None:
        return line.share, line.amount
    if number == CARRIED:
        return Decimal(invoice.document["carried_in_share"]), invoice.carried_in
    one = _adjustments(invoice)[number]
    return Decimal(one["share"]), Decimal(one["amount"])


def part_known(invoice: Invoice, part: Part) -> bool:
    """Whether the invoice still has what the part takes back of."""
    return part.line is not None or part.number == CARRIED or part.number in _adjustments(invoice)


def _account(invoice: Invoice, part: Part) -> AccountKind:
    """Where the part's amount was posted to when it was invoiced, or used."""
    if part.line is not None:
        return AccountKind.REVENUE if part.line.kind == "usage" else AccountKind.BREAKAGE
    return adjustment_account(_adjustments(invoice)[part.number]["kind"] if part.number != CARRIED else "carried")


def adjustment_account(kind: str) -> AccountKind:
    """Where a named line of that kind is posted."""
    return ACCOUNTS.get(kind, AccountKind.CREDIT)


def _title(invoice: Invoice, number: int) -> str:
    if number == CARRIED:
        return "Carried from the invoice before"
    if number in _adjustments(invoice):
        return str(_adjustments(invoice)[number]["title"])
    return line_title(invoice.document["lines"][number - 1])


def _tax(invoice: Invoice, net: Decimal) -> Decimal:
    """The tax of all that is credited so far, less what was credited before: whole invoices give their whole tax."""
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


def _given_back(invoice: Invoice, beyond: Decimal) -> dict[AccountKind, Decimal]:
    """How much of what is credited beyond what was open the customer has back already: by disputes that were lost, and by
    refunds at our cost. What the note takes back of both accounts.

    Raises Problem while a dispute is not decided: who has the money is not known.
    """
    if beyond and invoice.dispute == DisputeState.OPEN:
        raise Problem(
            409,
            "Disputed",
            f"The payment of invoice {invoice.number} is disputed; credit it when that is decided.",
            kind="invoice-disputed",
        )
    keys, found = [*keys_of_notes(invoice), *keys_of_facts(invoice)], {}
    for account in GIVEN_BACK:
        there = max(moved(invoice.organisation_id, keys, account), Decimal(0))
        found[account] = min(beyond, there)
        beyond = subtract(beyond, found[account])
    return found


def keys_of_notes(invoice: Invoice) -> list[str]:
    """The keys of the postings of an invoice's credit notes."""
    return [f"credit-note:{pk}" for pk in invoice.credit_notes.order_by("number").values_list("pk", flat=True)]


def keys_of_facts(invoice: Invoice) -> list[str]:
    """The keys of the postings of what came back, or was given back, of an invoice's money at Stripe."""
    facts = StripeFact.objects.filter(invoice=invoice, kind__in=MOVED_BACK)
    return [fact.posting_key for fact in facts.order_by("id")]


def note_amounts(
    note: CreditNote, invoice: Invoice, parts: list[Part], settled: Decimal, back: Mapping[AccountKind, Decimal]
) -> dict[AccountKind, Decimal]:
    """What a credit note posts: income comes back exactly, what rounding had moved of it too. `settled` was open, of `back`
    (a dispute that was lost, a refund) the customer has the money; the rest is the customer's balance."""
    amounts: dict[AccountKind, Decimal] = {
        AccountKind.ROUNDING: subtract(note.net, exact_sum(part.amount for part in parts)),
        AccountKind.TAX: note.tax,
        AccountKind.RECEIVABLE: settled.copy_negate(),
        **{account: back[account].copy_negate() for account in GIVEN_BACK},
        AccountKind.PREPAID: subtract(exact_sum([settled, *back.values()]), note.total),
    }
    for part in parts:
        account = _account(invoice, part)
        amounts[account] = exact_sum([amounts.get(account, Decimal(0)), part.amount])
    return amounts


def issue_reversed(invoice: Invoice) -> dict[AccountKind, Decimal]:
    """What issuing the invoice posted, the other way round: its usage is accrued again, its adjustments undone."""
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
    """Credits that the invoice used are there again."""
    for part in parts:
        grant = _adjustments(invoice).get(part.number, {}).get("basis", {}).get("grant")
        if grant is not None and part.amount:
            CreditUse.objects.create(grant_id=UUID(grant), invoice=invoice, amount=part.amount, at=now)


def _number(now: datetime) -> str:
    year = now.astimezone(UTC).year
    CreditNoteCounter.objects.bulk_create([CreditNoteCounter(year=year)], ignore_conflicts=True)
    counter = CreditNoteCounter.objects.select_for_update().get(year=year)
    counter.last += 1
    counter.save(update_fields=["last"])
    return f"C-{year}-{counter.last:06d}"
