"""Deleting an organisation: refused while it has open business, then nobody can enter it any more.

What law and recomputation need stays: contracts, invoices, the ledger, the audit log, and the programs that they name.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from apps.accounts.access import Principal
from apps.accounts.models import ApiToken, Invitation, Membership, Organisation
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.dispatch.models import FINAL, Job
from apps.invoicing.drafting import usage_open
from apps.invoicing.selectors import invoices_unpaid
from apps.notifications.models import WebhookEndpoint
from apps.sales.models import Commitment, Contract, ContractState


def open_business(organisation: Organisation, *, now: datetime) -> list[str]:
    """What must be settled before the organisation can be deleted, each with what to do; empty when nothing is open."""
    contracts = Contract.objects.filter(organisation=organisation, state=ContractState.ACTIVE).count()
    jobs = Job.objects.filter(organisation=organisation).exclude(state__in=FINAL).count()
    invoices = invoices_unpaid().filter(organisation=organisation).count()
    commitments = Commitment.objects.filter(organisation=organisation, period__endswith__gt=now).count()
    found = {
        f"{jobs} job{_s(jobs)} not finished: wait for them or cancel them.": jobs,
        f"{contracts} active contract{_s(contracts)}: end them, or wait until they are over.": contracts,
        f"{commitments} commitment{_s(commitments)} in force: wait until they are over.": commitments,
        "Use that is not invoiced: issue the invoice under Invoices.": usage_open(organisation, until=now).exists(),
        f"{invoices} unpaid invoice{_s(invoices)}: pay them.": invoices,
    }
    return [sentence for sentence, is_open in found.items() if is_open]


@transaction.atomic
def organisation_delete(*, organisation: Organisation, principal: Principal, now: datetime) -> None:
    """Take everybody out and stop every token, invitation and webhook. Raises Problem while there is open business."""
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    found = open_business(organisation, now=now)
    if found:
        raise Problem(
            409,
            "Open business",
            "The organisation cannot be deleted yet. " + " ".join(found),
            kind="organisation-open",
            errors=[{"message": sentence} for sentence in found],
        )
    ApiToken.objects.filter(organisation=organisation, revoked_at__isnull=True).update(revoked_at=now)
    Invitation.objects.filter(organisation=organisation, accepted_at__isnull=True, revoked_at__isnull=True).update(
        revoked_at=now
    )
    WebhookEndpoint.objects.filter(organisation=organisation, is_active=True).update(is_active=False)
    members = Membership.objects.filter(organisation=organisation)
    audit_record(
        action="organisation.delete",
        now=now,
        principal=principal,
        organisation=organisation,
        subject=organisation.name,
        detail={"members": members.count()},
    )
    members.delete()


def _s(count: int) -> str:
    return "" if count == 1 else "s"
