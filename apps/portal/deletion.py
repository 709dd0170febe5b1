"""Delete an organisation that has no open business.

Records that are required by law or for recomputing invoices are kept.
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
    """Return a sentence for each obstacle to the deletion. Each sentence names the remedy."""
    contracts = Contract.objects.filter(organisation=organisation, state=ContractState.ACTIVE).count()
    jobs = Job.objects.filter(organisation=organisation).exclude(state__in=FINAL).count()
    invoices = invoices_unpaid().filter(organisation=organisation).count()
    commitments = Commitment.objects.filter(organisation=organisation, period__endswith__gt=now).count()
    found = {
        f"{jobs} job{_s(jobs)} not finished: wait until the work ends, or cancel it.": jobs,
        f"{contracts} active contract{_s(contracts)}: end {_it(contracts)} early, or wait for the end of the term.": contracts,
        f"{commitments} commitment{_s(commitments)} in force: wait for the end of the term.": commitments,
        "Some usage is not yet invoiced: issue an invoice under Invoices.": usage_open(
            organisation, until=now
        ).exists(),
        f"{invoices} unpaid invoice{_s(invoices)}: pay {_it(invoices)} before deleting.": invoices,
    }
    return [sentence for sentence, is_open in found.items() if is_open]


@transaction.atomic
def organisation_delete(*, organisation: Organisation, principal: Principal, now: datetime) -> None:
    """Remove all members, and disable all tokens, invitations and webhooks. Raises Problem if there is open business."""
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    obstacles = open_business(organisation, now=now)
    if obstacles:
        raise Problem(
            409,
            "Open business",
            "The organisation cannot be deleted yet. " + " ".join(obstacles),
            kind="organisation-open",
            errors=[{"message": sentence} for sentence in obstacles],
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


def _it(count: int) -> str:
    return "it" if count == 1 else "them"
