"""Demo data for sales."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from apps.accounts.models import Organisation, User
from apps.sales.models import OrganisationStanding
from apps.sales.services import standing_set


def seed(*, now: datetime, organisation: Organisation, owner: User, admin: User) -> None:
    """Approve the demo organisation once. Later changes by an administrator are kept."""
    if not OrganisationStanding.objects.filter(pk=organisation.pk).exists():
        standing_set(
            organisation=organisation, is_approved=True, credit=None, pool_share=Decimal(1), principal=None, now=now
        )
