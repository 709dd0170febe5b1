"""The customer API for administrators: tax and refunds."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

from django.http import Http404, HttpRequest
from django.utils import timezone
from ninja import Field, Router, Schema

from apps.accounts.access import principal_get
from apps.accounts.auth import requires
from apps.accounts.bodies import RequestBody
from apps.accounts.idempotency import idempotent
from apps.accounts.models import Organisation
from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.invoicing.models import BillingProfile
from apps.invoicing.services import balance_refund
from apps.invoicing.services.settling import balance_of
from apps.portal.customers.services import tax_set
from apps.pricing.amounts import Code, Entered, amount_entered, currency_chosen
from apps.pricing.rating import decimal_text

router = Router(tags=["invoices and usage"])
ADMIN = requires(Scope.ADMIN)
RATE = r"^0(\.[0-9]{1,4})?$"


class TaxIn(RequestBody):
    """`rate` is a share: 0.19 means 19 %. `rate` must be 0 unless the scheme is `standard`."""

    scheme: Literal["standard", "reverse_charge", "exempt"]
    rate: str = Field("0", pattern=RATE)
    payment_days: int = Field(14, ge=0, le=365)


class TaxOut(Schema):
    scheme: str
    rate: str
    payment_days: int
    tax_id: str


class RefundIn(RequestBody):
    """`reference` names the bank transfer of the refund. The default `currency` is the currency of the price book in
    force.
    """

    organisation: UUID
    amount: Entered
    currency: Code | None = None
    reference: str = Field(pattern=r"^[^\x00-\x1f]{1,120}$")


class RefundOut(Schema):
    id: UUID
    amount: str
    currency: str
    reference: str
    balance: str


@router.get(
    "/customers/{uuid:pk}/tax", auth=ADMIN, response=TaxOut, operation_id="customer_tax_get", summary="A customer's tax"
)
def customer_tax_get(request: HttpRequest, pk: UUID) -> dict[str, Any]:
    """For administrators: the tax scheme, tax rate and payment days of the customer's next invoices."""
    return _tax(_organisation(pk))


@router.put(
    "/customers/{uuid:pk}/tax",
    auth=ADMIN,
    response=TaxOut,
    operation_id="customer_tax_set",
    summary="Set a customer's tax",
)
def customer_tax_set(request: HttpRequest, pk: UUID, payload: TaxIn) -> dict[str, Any]:
    """For administrators. The change applies to the next invoices; issued invoices do not change."""
    organisation = _organisation(pk)
    tax_set(
        organisation=organisation,
        scheme=payload.scheme,
        rate=Decimal(payload.rate),
        payment_days=payload.payment_days,
        actor=principal_get(request).user,
        now=timezone.now(),
    )
    return _tax(organisation)


@router.post(
    "/refunds",
    auth=ADMIN,
    response={201: RefundOut},
    operation_id="refund_create",
    summary="Refund a customer's balance",
)
@idempotent
def refund_create(request: HttpRequest, payload: RefundIn) -> tuple[int, dict[str, Any]]:
    """For administrators. The amount can't exceed the customer's balance, which is the amount paid or credited above
    the amount due.

    Refund card payments at Stripe instead; Takt then posts the refunds automatically.
    """
    organisation, now = Organisation.objects.filter(pk=payload.organisation).first(), timezone.now()
    if organisation is None:
        raise Problem(422, "Unknown organisation", "There is no organisation with this id.", kind="balance")
    chosen = currency_chosen(payload.currency, now=now)
    currency, amount = chosen.code, amount_entered(payload.amount, currency=chosen)
    key = request.headers.get("Idempotency-Key") or payload.reference
    posted = balance_refund(
        organisation=organisation,
        amount=amount,
        currency=currency,
        reference=payload.reference,
        idempotency_key=f"api:{key}"[:120],
        actor=principal_get(request).user,
        now=now,
    )
    return 201, {
        "id": posted.id,
        "amount": decimal_text(amount),
        "currency": currency,
        "reference": payload.reference,
        "balance": decimal_text(balance_of(organisation.id, currency)),
    }


def _organisation(pk: UUID) -> Organisation:
    found = Organisation.objects.filter(pk=pk).first()
    if found is None:
        raise Http404
    return found


def _tax(organisation: Organisation) -> dict[str, Any]:
    known = BillingProfile.objects.filter(organisation=organisation).first() or BillingProfile()
    return {
        "scheme": known.tax_scheme,
        "rate": decimal_text(known.tax_rate.normalize()),
        "payment_days": known.payment_days,
        "tax_id": known.tax_id,
    }
