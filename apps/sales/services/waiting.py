"""File and end standing requests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Max

from apps.accounts.broker import task_send_on_commit
from apps.accounts.models import Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record, email_is_confirmed
from apps.fleet.models import Pool
from apps.fleet.selectors import pool_get
from apps.ledger.models import OutboxRow
from apps.ledger.services import HOLD_GRACE, hold_place, hold_release
from apps.pricing.rating import decimal_text, exact_sum
from apps.pricing.rating.decimals import subtract
from apps.sales.buying_limits import Purchase, refusals
from apps.sales.models import FormName, Quote, QuoteState, StandingRequest, StandingState
from apps.sales.priced import Priced
from apps.sales.request_lines import window_of_document
from apps.sales.services.quoting import pricing_make
from apps.sales.services.standing import committed_in, request_refusals, rules_now, standing_of
from apps.sales.snapshots import project_uuid
from apps.sales.standing_quotes import PERIODIC, quote_arguments, waits_until
from apps.timetable.services import LONGEST_NOTED

WAITING_MOST = 200  # requests of one organisation
SERVE = "apps.sales.tasks.standing_serve"


@transaction.atomic
def standing_file(
    *,
    quote_id: UUID,
    organisation: Organisation,
    most: Decimal,
    until: datetime | None = None,
    pools: Sequence[str] = (),
    actor: User,
    now: datetime,
    token_id: UUID | None = None,
) -> StandingRequest:
    """File a request to buy the work of a quote for at most `most`, which is set aside now.

    `until`: the time by which the work must finish; the default is the end of the quote's window. `pools`: the pools on
    which the work may run; the default is the quote's pool. Raises Problem if the request is not allowed.
    """
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    quote = Quote.objects.select_related("pool").filter(organisation=organisation).get(pk=quote_id)
    _check_quote(quote)
    window = window_of_document(quote.document)
    until = window.end if quote.form in PERIODIC or until is None else until
    last = waits_until(quote, until)
    if now >= last:
        raise Problem(
            422, "Too late", "The time by which the work must finish has passed. Enter a later time.", kind="window"
        )
    known = [pool_get(slug) for slug in dict.fromkeys(pools or [quote.pool.slug])]
    asked = quote_arguments(quote)
    priced = [
        pricing_make(
            organisation=organisation, klass=quote.klass, pool=pool, window=(window.start, until), now=now, **asked
        ).priced
        for pool in known
    ]
    currency = priced[0].book.currency
    _check_money(organisation, most, currency.code, actor)
    request = StandingRequest.objects.create(
        organisation=organisation,
        number=_number(organisation),
        quote=quote,
        pools=[pool.slug for pool in known],
        klass=quote.klass,
        form=quote.form,
        begins_at=window.start,
        until=until,
        waits_until=last,
        most=most,
        currency=currency.code,
        least_us=min(_least(one) for one in priced),
        filed_at=now,
        filed_by=actor,
        token_id=token_id,
    )
    _set_aside(request, priced[0], now)
    _announce("filed", request, now, actor=actor)
    for pool in known:
        task_send_on_commit(SERVE, queue="default", pool=pool.slug)
    return request


def _set_aside(request: StandingRequest, priced: Priced, now: datetime) -> None:
    hold_place(
        organisation_id=request.organisation_id,
        contract_id=request.pk,
        amount=request.most,
        currency=request.currency,
        idempotency_key=f"standing:{request.pk}",
        now=now,
        shares=_shares(priced, request.most),
        token_id=request.token_id,
        expires_at=request.waits_until + HOLD_GRACE,
    )


def _check_quote(quote: Quote) -> None:
    if quote.state == QuoteState.ACCEPTED:
        raise Problem(
            409, "Already accepted", "This quote has become a contract. Make a new quote.", kind="quote-accepted"
        )
    for problem in request_refusals(quote):
        raise problem
    if quote.amends_id is not None:
        raise Problem(
            422,
            "Cannot wait",
            "A quote that amends a contract cannot wait for room, because the contract may be used in the meantime.",
            kind="standing-amends",
        )


def _check_money(organisation: Organisation, most: Decimal, currency: str, actor: User) -> None:
    if most <= 0:
        raise Problem(422, "No price", "Enter a maximum price above 0.", kind="standing-price")
    waiting = StandingRequest.objects.filter(organisation=organisation, state=StandingState.WAITING).count()
    if waiting >= WAITING_MOST:
        raise Problem(
            409,
            "Too many waiting requests",
            f"At most {WAITING_MOST} requests can wait at once. Withdraw one first.",
            kind="standing-many",
        )
    asked = Purchase(
        amount=most,
        currency=currency,
        committed=committed_in(organisation.pk, currency),
        seconds=Fraction(0),
        ahead=Fraction(0),
        devices=1,
        pool="",
        is_confirmed=email_is_confirmed(actor),
    )
    for problem in refusals(asked, standing_of(organisation.pk), rules_now()):
        raise problem


def _number(organisation: Organisation) -> int:
    # The caller must hold the organisation's lock.
    rows = StandingRequest.objects.filter(organisation=organisation)
    return (rows.aggregate(most=Max("number"))["most"] or 0) + 1


def _least(priced: Priced) -> int:
    if priced.pool.is_host or priced.form.name == FormName.QUOTA:
        return 0
    return min(int(priced.duration / priced.pool.slowdown * 10**6), LONGEST_NOTED)


def _shares(priced: Priced, most: Decimal) -> dict[UUID, Decimal] | None:
    # The project of the first line also gets the remainder.
    shares: dict[UUID, Decimal] = {}
    left = most
    for line in priced.lines:
        project = project_uuid(line.request_line.snapshot)
        if project is None:
            return None
        part = min(left, line.worst.amount)
        shares[project] = exact_sum([shares.get(project, Decimal(0)), part])
        left = subtract(left, part)
    first = next(iter(shares))
    shares[first] = exact_sum([shares[first], left])
    return shares


@transaction.atomic
def standing_withdraw(*, request_id: UUID, organisation: Organisation, actor: User, now: datetime) -> StandingRequest:
    """Withdraw a request and release its hold. Safe to repeat.

    Raises Problem(409) if the request was served or has ended.
    """
    request = _locked(request_id, organisation.pk)
    if request.state == StandingState.WITHDRAWN:
        return request
    if not request.is_waiting:
        raise Problem(
            409, "Not waiting", f"This request is already {request.get_state_display().lower()}.", kind="standing-over"
        )
    return standing_end(request, StandingState.WITHDRAWN, now=now, actor=actor)


def standing_expire_due(*, now: datetime, limit: int = 500) -> int:
    """End every request that has expired, each in its own transaction. Return the number of requests ended."""
    due = StandingRequest.objects.filter(state=StandingState.WAITING, waits_until__lte=now).order_by("waits_until")
    return sum(_expire(*ids, now=now) for ids in list(due.values_list("pk", "organisation_id")[:limit]))


@transaction.atomic
def _expire(request_id: UUID, organisation_id: UUID, *, now: datetime) -> bool:
    request = _locked(request_id, organisation_id)
    if not request.is_waiting or now < request.waits_until:
        return False
    standing_end(request, StandingState.EXPIRED, now=now)
    return True


@transaction.atomic
def standing_refuse(*, request_id: UUID, organisation_id: UUID, reason: str, kind: str, now: datetime) -> None:
    """End a request that can no longer be served."""
    request = _locked(request_id, organisation_id)
    if request.is_waiting:
        request.reason, request.reason_kind = reason[:400], kind
        standing_end(request, StandingState.REFUSED, now=now)


def _locked(request_id: UUID, organisation_id: UUID) -> StandingRequest:
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation_id)
    rows = StandingRequest.objects.select_for_update(no_key=True, of=("self",)).filter(organisation=organisation_id)
    return rows.select_related("organisation", "filed_by", "token").get(pk=request_id)


standing_locked = _locked


def standing_end(
    request: StandingRequest, state: StandingState, *, now: datetime, actor: User | None = None
) -> StandingRequest:
    """End a locked request without a contract, and release its hold."""
    hold_release(contract_id=request.pk, now=now)
    request.state, request.ended_at = state, now
    request.save(update_fields=["state", "ended_at", "reason", "reason_kind"])
    _announce(state.value, request, now, actor=actor)
    return request


def standing_served(request: StandingRequest, *, contract: Any, now: datetime) -> None:
    """Record that a locked request became a contract."""
    request.state, request.contract, request.ended_at = StandingState.SERVED, contract, now
    request.reason = request.reason_kind = ""
    request.save(update_fields=["state", "contract", "ended_at", "reason", "reason_kind"])
    _announce("served", request, now, contract=str(contract.pk), net=decimal_text(contract.net))


def _announce(what: str, request: StandingRequest, now: datetime, *, actor: User | None = None, **more: str) -> None:
    detail = {
        "request": str(request.pk),
        "number": request.number,
        "quote": str(request.quote_id),
        "most": decimal_text(request.most),
        "currency": request.currency,
        "reason": request.reason,
        **more,
    }
    audit_record(
        action=f"standing.{what}",
        subject=f"standing request {request.pk}",
        actor=actor,
        organisation=request.organisation,
        now=now,
        detail=detail,
    )
    OutboxRow.objects.create(
        organisation=request.organisation, topic=f"standing.{what}", payload=detail, created_at=now
    )


def capacity_freed(pool: Pool) -> None:
    """After the commit, queue a task that offers the pool's free time to waiting requests."""
    if StandingRequest.objects.filter(state=StandingState.WAITING, pools__contains=[pool.slug]).exists():
        task_send_on_commit(SERVE, queue="default", pool=pool.slug)
