"""Changes that administrators make to a customer."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from django.db import transaction

from apps.accounts.models import Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.invoicing.models import BillingProfile
from apps.invoicing.models.invoices import TaxScheme
from apps.pricing.rating import decimal_text


@transaction.atomic
def tax_set(
    *, organisation: Organisation, scheme: str, rate: Decimal, payment_days: int, actor: User, now: datetime
) -> BillingProfile:
    """Set the tax of the next invoices. Raises Problem if the scheme, rate and tax number contradict each other."""
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    profile = BillingProfile.objects.filter(organisation=organisation).first() or BillingProfile(
        organisation=organisation
    )
    if scheme != TaxScheme.STANDARD and rate:
        raise Problem(422, "Invalid tax", "Only the standard scheme has a tax rate. Set the rate to 0.", kind="tax")
    if scheme == TaxScheme.REVERSE_CHARGE and not profile.tax_id:
        raise Problem(
            422,
            "Invalid tax",
            "Reverse charge requires the customer's tax number. The customer can enter the number under Billing portal, "
            "Billing address.",
            kind="tax",
        )
    profile.tax_scheme, profile.tax_rate, profile.payment_days = scheme, rate, payment_days
    profile.save()
    audit_record(
        action="billing.tax",
        subject=str(organisation.id),
        actor=actor,
        organisation=organisation,
        now=now,
        detail={"scheme": scheme, "rate": decimal_text(rate), "payment_days": payment_days},
    )
    return profile
