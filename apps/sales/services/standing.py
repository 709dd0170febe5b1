"""The buying limits of organisations: read, check and set them."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Case, DecimalField, DurationField, ExpressionWrapper, F, QuerySet, Sum, Value, When
from django.db.models.functions import Greatest

from apps.accounts.access import Principal
from apps.accounts.models import Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record, email_is_confirmed
from apps.fleet.selectors import devices_of
from apps.ledger.models import Hold, HoldState
from apps.pricing.rating import decimal_text
from apps.sales.buying_limits import Purchase, Rules, Standing, refusals
from apps.sales.models import (
    BuyingRules,
    Contract,
    OrganisationStanding,
    PlanHold,
    Quote,
    StandingRequest,
    StandingState,
)
from apps.timetable.expiry import taken
from apps.timetable.models import Window, WindowState

ONLY = 1  # the only row of the rules
KEPT = "kept"  # class of the windows that represent claims; none survives a commit


def rules_now() -> Rules:
    """Return the general limits. The settings apply until an administrator sets the limits."""
    row = BuyingRules.objects.filter(pk=ONLY).first()
    if row is None:
        return Rules(settings.NEWCOMER_CREDIT, settings.POOL_SHARE, timedelta(days=settings.POOL_SHARE_DAYS))
    return Rules(row.newcomer_credit, row.pool_share, timedelta(days=row.horizon_days))


def standing_of(organisation_id: Any) -> Standing:
    """Return an organisation's own limits and approval. An organisation without a record is a newcomer."""
    row = OrganisationStanding.objects.filter(pk=organisation_id).first()
    if row is None:
        return Standing()
    return Standing(row.has_payment_method, row.is_approved, row.credit, row.pool_share)


def acceptance_refusals(quote: Quote, *, actor: User | None, now: datetime) -> list[Problem]:
    """Return the reasons why `actor` could not accept the quote now. Expiry and capacity are not checked."""
    rules, standing = rules_now(), standing_of(quote.organisation_id)
    return [*request_refusals(quote), *refusals(_asked(quote, standing, rules, actor, now), standing, rules)]


def request_refusals(quote: Quote) -> list[Problem]:
    """Return the refusal if a standing request for the quote is waiting or was served. Otherwise, return an empty list."""
    live = [StandingState.WAITING, StandingState.SERVED]
    row = StandingRequest.objects.filter(quote=quote.pk, state__in=live).order_by("number").first()
    if row is None:
        return []
    if row.is_waiting:
        said = (
            f"Standing request {row.number} is already waiting to buy this work. Withdraw the request first, or make a "
            "new quote."
        )
        return [Problem(409, "Already waiting", said, kind="quote-waits", errors=[{"standing": str(row.pk)}])]
    said = f"Standing request {row.number} has already bought this work. Make a new quote to buy more."
    return [Problem(409, "Already bought", said, kind="quote-accepted", errors=[{"contract": str(row.contract_id)}])]


def acceptance_check(quote: Quote, *, actor: User | None, now: datetime) -> None:
    """Raise Problem if the quote may not be accepted.

    The caller must hold the organisation's lock and must already have closed the amended contract.
    """
    for problem in acceptance_refusals(quote, actor=actor, now=now):
        raise problem


def _asked(quote: Quote, standing: Standing, rules: Rules, actor: User | None, now: datetime) -> Purchase:
    limited = standing.share_under(rules) < 1
    open_contract = quote.amends if quote.amends_id and quote.amends and quote.amends.closed_at is None else None
    return Purchase(
        amount=quote.worst,
        currency=quote.currency,
        committed=Decimal(0) if standing.credit_under(rules) is None else committed(quote, replaced=open_contract),
        seconds=Fraction(quote.document["device_seconds"]),
        ahead=_ahead(quote, now, replaced=open_contract) if limited else Fraction(0),
        devices=len(devices_of(quote.pool)) if limited else 0,
        pool=quote.pool.name,
        is_confirmed=actor is None or email_is_confirmed(actor),
    )


def committed(quote: Quote, *, replaced: Contract | None) -> Decimal:
    """Return the sum of the organisation's holds and the charges of its closed contracts, in the quote's currency.

    `replaced`: a contract whose charges count, but not its hold.
    """
    return committed_in(quote.organisation_id, quote.currency, replaced=replaced)


def committed_in(organisation_id: Any, currency: str, *, replaced: Contract | None = None) -> Decimal:
    """Return the sum of an organisation's holds and charges in one currency.

    `replaced`: a contract whose charges count, but not its hold.
    """
    rows = Hold.objects.filter(organisation_id=organisation_id, currency=currency)
    open_hold = When(state=HoldState.PENDING, then=F("amount"))
    of_replaced = [When(contract_id=replaced.pk, then=F("posted"))] if replaced else []
    field: DecimalField[Any, Any] = DecimalField(max_digits=72, decimal_places=40)
    total = rows.aggregate(total=Sum(Case(*of_replaced, open_hold, default=F("posted"), output_field=field)))["total"]
    return Decimal(total or 0)


def _ahead(quote: Quote, now: datetime, *, replaced: Contract | None) -> Fraction:
    rows = Window.objects.filter(
        reservation__organisation_id=quote.organisation_id,
        reservation__pool_id=quote.pool_id,
        state=WindowState.ACTIVE,
    ).exclude(reservation__klass=KEPT)
    rows = taken(rows, now=now).exclude(reservation__in=PlanHold.objects.filter(quote=quote).values("reservation"))
    if replaced is not None:
        rows = rows.exclude(reservation_id=replaced.reservation_id)
    return seconds_ahead(rows, now)


def seconds_ahead(windows: QuerySet[Window], now: datetime) -> Fraction:
    """Return the total length of these windows after `now`, in seconds."""
    begins = Greatest(F("period__startswith"), Value(now))
    length = ExpressionWrapper(F("period__endswith") - begins, output_field=DurationField())
    total: timedelta | None = windows.filter(period__endswith__gt=now).aggregate(total=Sum(length))["total"]
    return Fraction((total or timedelta()) // timedelta(microseconds=1), 10**6)


@transaction.atomic
def buying_rules_set(
    *, newcomer_credit: Decimal | None, pool_share: Decimal, horizon_days: int, principal: Principal, now: datetime
) -> None:
    """Set the general limits. Existing contracts do not change."""
    new = {"newcomer_credit": newcomer_credit, "pool_share": pool_share, "horizon_days": horizon_days}
    BuyingRules.objects.update_or_create(pk=ONLY, defaults=new)
    audit_record(
        action="buying.rules", now=now, principal=principal, detail={key: _text(one) for key, one in new.items()}
    )


@transaction.atomic
def standing_set(
    *,
    organisation: Organisation,
    is_approved: bool,
    credit: Decimal | None,
    pool_share: Decimal | None,
    principal: Principal | None,
    now: datetime,
) -> None:
    """Set an organisation's own limits. None means that the general limit applies.

    `is_approved` removes the newcomer credit limit, but not a limit set by `credit`.
    """
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    new = {"is_approved": is_approved, "credit": credit, "pool_share": pool_share}
    OrganisationStanding.objects.update_or_create(pk=organisation.pk, defaults=new)
    audit_record(
        action="organisation.standing",
        now=now,
        principal=principal,
        organisation=organisation,
        subject=organisation.name,
        detail={key: _text(one) for key, one in new.items()},
    )


def payment_method_note(*, organisation_id: Any, is_present: bool) -> None:
    """Record whether the organisation has a payment method."""
    OrganisationStanding.objects.update_or_create(pk=organisation_id, defaults={"has_payment_method": is_present})


def _text(value: Decimal | int | bool | None) -> str | int | bool | None:
    return decimal_text(value) if isinstance(value, Decimal) else value
