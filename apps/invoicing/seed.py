"""Demo data for invoicing."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from apps.accounts.models import Organisation, User
from apps.invoicing.models import BillingProfile
from apps.invoicing.services import cap_change, profile_set
from apps.pricing.selectors import book_in_force

CAP = Decimal(500)


def seed(*, now: datetime, organisation: Organisation, owner: User, admin: User) -> None:
    """Set the billing address and the spend cap of the demo organisation, unless a billing address exists."""
    if BillingProfile.objects.filter(organisation=organisation).exists():
        return
    profile_set(
        organisation=organisation,
        legal_name=organisation.name,
        address="1 Example Street\n10115 Berlin",
        tax_id="",
        actor=owner,
        now=now,
    )
    cap_change(organisation=organisation, amount=CAP, currency=book_in_force(at=now).currency, actor=owner, now=now)
