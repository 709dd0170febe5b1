"""Reconciles a customer's usage, invoices, settlements and credits with their postings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from django.db.models import Count, Sum

from apps.accounts.models import Organisation
from apps.invoicing.adjustments import credits_left
from apps.invoicing.models import Invoice, InvoicedUsage, InvoiceLine, InvoiceState
from apps.invoicing.reconciliation.contracts import contract_differences
from apps.invoicing.reconciliation.credits import grant_differences
from apps.invoicing.reconciliation.invoices import invoice_differences
from apps.invoicing.reconciliation.notes import note_differences
from apps.invoicing.reconciliation.postings import Postings
from apps.invoicing.reconciliation.reminders import reminder_differences
from apps.invoicing.reconciliation.settlements import settlement_differences
from apps.invoicing.reconciliation.stripe import fact_differences
from apps.ledger.altered import compared
from apps.ledger.instant import one_instant
from apps.ledger.models import AccountKind, UsageRow
from apps.ledger.reconciling import Amounts, Reconciliation, amounts_differ, reconcile
from apps.ledger.selectors import balances
from apps.pricing.models import PriceBook
from apps.pricing.rating import exact_sum
from apps.pricing.selectors import book_alterations
from apps.sales.models import Contract

__all__ = ["FullReconciliation", "Sums", "reconcile_all"]


class Sums(NamedTuple):
    """The sums in one currency.

    `metered`, `rated` and `posted` should be equal. `invoiced` plus `not_yet_invoiced` should equal `metered`.
    """

    currency: str
    metered: Decimal
    rated: Decimal
    posted: Decimal
    invoiced: Decimal
    not_yet_invoiced: Decimal


@dataclass(frozen=True)
class FullReconciliation:
    """The reconciliation of an organisation's ledger, invoices and contracts."""

    ledger: Reconciliation
    invoiced: Amounts
    open: Amounts
    differences: list[str]

    @property
    def sums(self) -> list[Sums]:
        five = (self.ledger.metered, self.ledger.rated, self.ledger.posted, self.invoiced, self.open)
        codes = sorted(set[str]().union(*five))
        return [Sums(code, *(one.get(code, Decimal(0)) for one in five)) for code in codes]


def reconcile_all(organisation: Organisation) -> FullReconciliation:
    """Reconcile all of an organisation's amounts, read in one database snapshot. Differences are described in sentences."""
    with one_instant():
        return _reconciled(organisation)


def _reconciled(organisation: Organisation) -> FullReconciliation:
    ledger = reconcile(organisation.id)
    rows = UsageRow.objects.filter(organisation=organisation).order_by()
    # Not by the links of lines, because a lost link must show as a difference. A void invoice has none.
    lines = InvoiceLine.objects.filter(invoice__organisation=organisation).exclude(invoice__state=InvoiceState.VOID)
    invoiced = _sums(dict(lines.order_by().values_list("invoice__currency").annotate(sum=Sum("amount"))))
    unclaimed = rows.filter(invoiced__isnull=True)
    waiting = _sums(dict(unclaimed.values_list("currency").annotate(sum=Sum("amount"))))
    differences = list(ledger.differences)
    differences += amounts_differ("metered minus invoiced and open", ledger.metered, _added(invoiced, waiting))
    claimed = InvoicedUsage.objects.filter(usage__organisation=organisation).aggregate(n=Count("pk"))["n"]
    if claimed + unclaimed.count() != ledger.rows:
        differences.append("some usage is neither invoiced nor open")
    known = set(Contract.objects.filter(organisation=organisation).values_list("pk", flat=True))
    unknown = set(rows.values_list("contract_id", flat=True)) - known
    differences += [f"usage names contract {contract}, which does not exist" for contract in sorted(map(str, unknown))]
    return FullReconciliation(ledger, invoiced, waiting, differences + _paper_differences(organisation, waiting))


def _paper_differences(organisation: Organisation, waiting: Amounts) -> list[str]:
    postings = Postings.of(organisation.id)
    # Every book, not only those used: the next quote uses one of them.
    differences = [one for book in PriceBook.objects.order_by("version") for one in book_alterations(book)]
    differences += contract_differences(organisation.id)
    differences += invoice_differences(organisation.id, postings)
    differences += note_differences(organisation.id, postings)
    differences += settlement_differences(organisation.id, postings)
    differences += reminder_differences(organisation.id, postings)
    differences += grant_differences(organisation.id, postings)
    differences += fact_differences(organisation.id, postings)
    differences += postings.orphans()
    return differences + compared("the accounts", lambda: _account_differences(organisation, waiting))


def _account_differences(organisation: Organisation, waiting: Amounts) -> list[str]:
    kept: dict[str, Amounts] = {}
    for (kind, code), balance in balances(organisation.id).items():
        kept.setdefault(kind, {})[code] = balance
    invoices = Invoice.objects.filter(organisation=organisation).order_by()
    still = _sums(dict(invoices.values_list("currency").annotate(sum=Sum("open"))))
    standing = invoices.exclude(state=InvoiceState.VOID).values_list("currency")
    carried = standing.annotate(sum=Sum("carried_out") - Sum("carried_in"))
    left: Amounts = {}
    for one in credits_left(organisation):
        left[one.grant.currency] = exact_sum([left.get(one.grant.currency, Decimal(0)), one.left.copy_negate()])
    differences = amounts_differ(
        "the account receivable minus open invoices", kept.get(AccountKind.RECEIVABLE, {}), still
    )
    differences += amounts_differ(
        "the account accrued minus usage that is not invoiced and what invoices carry",
        kept.get(AccountKind.ACCRUED, {}),
        _added(waiting, _sums(dict(carried))),
    )
    return differences + amounts_differ(
        "the account credit minus what is left of grants", kept.get(AccountKind.CREDIT, {}), left
    )


def _sums(found: Mapping[str, Decimal | None]) -> Amounts:
    return {code: amount or Decimal(0) for code, amount in found.items()}


def _added(one: Amounts, other: Amounts) -> Amounts:
    nothing = Decimal(0)
    return {code: exact_sum([one.get(code, nothing), other.get(code, nothing)]) for code in one.keys() | other.keys()}
