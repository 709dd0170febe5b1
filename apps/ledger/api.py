"""JSON API for the ledger and spend caps."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, StreamingHttpResponse
from django.utils import timezone
from ninja import Router, Schema

from apps.accounts.access import org_object_get, organisation_get, principal_get
from apps.accounts.auth import requires
from apps.accounts.bodies import RequestBody
from apps.accounts.models import ApiToken
from apps.accounts.roles import MONEY, Scope
from apps.accounts.services import audit_record
from apps.ledger.chain import chain_json
from apps.ledger.models import Cap
from apps.ledger.selectors import Scope as LedgerScope
from apps.ledger.selectors import Spending, caps_of, spendings
from apps.ledger.services import cap_set
from apps.pricing.amounts import Code, Entered, amount_entered, currency_chosen
from apps.pricing.rating import decimal_text
from apps.registry.models import Project

router = Router(tags=["ledger"])
BILLING = requires(Scope.BILLING, roles=MONEY)


class ScopedCapIn(RequestBody):
    """A cap to set. If `amount` is null, the cap is removed.

    The default currency is the currency of the price book in force.
    """

    amount: Entered | None = None
    currency: Code | None = None


class ScopedCapOut(Schema):
    scope: str
    project: UUID | None
    token: UUID | None
    cap: str
    used: str
    held: str
    currency: str
    set_at: datetime


@router.get(
    "/ledger/chain", operation_id="ledger_chain", summary="The chain of transactions, for independent verification"
)
def ledger_chain(request: HttpRequest) -> StreamingHttpResponse:
    """Returns the organisation's chain as a `takt-chain/2` document. The root of the current day is provisional."""
    chain = chain_json(organisation_get(request).id, now=timezone.now())
    response = StreamingHttpResponse(chain, content_type="application/json")
    response["Content-Disposition"] = 'attachment; filename="takt-chain.json"'
    return response


@router.get("/spend-caps", response=list[ScopedCapOut], operation_id="spend_cap_list", summary="Every spend cap")
def spend_cap_list(request: HttpRequest) -> list[dict[str, Any]]:
    """Lists the caps of the organisation, its projects and its API tokens, with the amount used this month (UTC) and
    the amount held.
    """
    return _caps(organisation_get(request).id)


@router.put(
    "/spend-caps/projects/{uuid:pk}",
    auth=BILLING,
    response=list[ScopedCapOut],
    operation_id="spend_cap_project",
    summary="Set the spend cap of a project",
)
def spend_cap_project(request: HttpRequest, pk: UUID, payload: ScopedCapIn) -> list[dict[str, Any]]:
    """Sets or removes a project's cap. A quote cannot be accepted if the project's work would exceed the cap."""
    return _set(request, payload, project=org_object_get(request, Project, roles=MONEY, pk=pk))


@router.put(
    "/spend-caps/tokens/{uuid:pk}",
    auth=BILLING,
    response=list[ScopedCapOut],
    operation_id="spend_cap_token",
    summary="Set the spend cap of an API token",
)
def spend_cap_token(request: HttpRequest, pk: UUID, payload: ScopedCapIn) -> list[dict[str, Any]]:
    """Sets or removes an API token's cap. The token cannot accept a quote that would exceed the cap."""
    return _set(request, payload, token=org_object_get(request, ApiToken, roles=MONEY, pk=pk))


def _set(
    request: HttpRequest, payload: ScopedCapIn, *, project: Project | None = None, token: ApiToken | None = None
) -> list[dict[str, Any]]:
    organisation, now = (project or token).organisation, timezone.now()  # type: ignore[union-attr]  # one of them is given
    if organisation is None:
        raise Http404
    chosen = currency_chosen(payload.currency, now=now)
    amount = None if payload.amount is None else amount_entered(payload.amount, currency=chosen)
    cap_set(
        organisation=organisation,
        amount=amount,
        currency=chosen.code,
        now=now,
        project_id=project.pk if project else None,
        token_id=token.pk if token else None,
    )
    subject = f"project {project.pk}" if project else f"token {token.pk if token else ''}"
    audit_record(
        action="cap.set",
        subject=subject,
        actor=principal_get(request).user,
        organisation=organisation,
        now=now,
        detail={"amount": None if amount is None else decimal_text(amount), "currency": chosen.code},
    )
    return _caps(organisation.pk)


def _caps(organisation_id: UUID) -> list[dict[str, Any]]:
    caps = caps_of(organisation_id)
    scopes = [LedgerScope(cap.currency, cap.project_id, cap.token_id) for cap in caps]
    spent = spendings(organisation_id=organisation_id, scopes=scopes, now=timezone.now())
    return [_told(cap, one) for cap, one in zip(caps, spent, strict=True)]


def _told(cap: Cap, spent: Spending) -> dict[str, Any]:
    return {
        "scope": cap.scope,
        "project": cap.project_id,
        "token": cap.token_id,
        "cap": decimal_text(cap.amount),
        "used": decimal_text(spent.used),
        "held": decimal_text(spent.held),
        "currency": cap.currency,
        "set_at": cap.set_at,
    }
