"""Accept quotes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from functools import partial
from uuid import UUID, uuid4

from django.db import transaction

from apps.accounts.counters import number_next
from apps.accounts.idempotency import keep
from apps.accounts.models import NumberKind, Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.ledger.models import Cap
from apps.ledger.selectors import caps_of
from apps.ledger.services import HOLD_GRACE, hold_place_locked
from apps.planner.models import Plan
from apps.pricing.limits import Window
from apps.pricing.rating import decimal_text, digest_of, exact_sum
from apps.pricing.selectors import book_of_digest
from apps.sales.commitments import commitment_left
from apps.sales.contract_minimum import minimum_quoted
from apps.sales.hold_models import HoldState
from apps.sales.models import Commitment, Contract, PlanHold, Quote, QuoteState
from apps.sales.plan_changes import changes_of, with_changes
from apps.sales.priced import Priced, request_lines_price
from apps.sales.quota_caps import project_cap_check
from apps.sales.request_lines import QuoteRequestLine, request_lines_of, window_of_document
from apps.sales.services.amending import contract_replace
from apps.sales.services.contract_terms import terms_of, volumes_store
from apps.sales.services.hold_ending import hold_end, open_hold
from apps.sales.services.nodes import quota_check
from apps.sales.services.standing import acceptance_check
from apps.sales.snapshots import project_uuid
from apps.sales.volumes import Form
from apps.timetable.holding import reservation_claim
from apps.timetable.models import Reservation
from apps.timetable.selectors import Demand
from apps.timetable.services import (
    CapacityTaken,
    PoolChanged,
    devices_lock,
    refusal_record,
    reservation_take_each,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Acceptance:
    """The checked data of a quote that is being accepted."""

    quote: Quote
    request_lines: Sequence[QuoteRequestLine]
    window: Window
    actor: User | None
    now: datetime
    token_id: UUID | None


def quote_accept(
    *, quote_id: UUID, organisation: Organisation, actor: User | None, now: datetime, token_id: UUID | None = None
) -> Contract:
    """Turn a quote into a contract. Capacity, hold and terms are committed in one transaction.

    `token_id`: the API token that accepts the quote; its spend cap applies too. Raises Problem if the quote cannot be
    accepted.
    """
    try:
        return _accept(quote_id=quote_id, organisation=organisation, actor=actor, now=now, token_id=token_id)
    except CapacityTaken as refusal:
        quote = Quote.objects.select_related("pool").get(pk=quote_id)
        note = partial(
            refusal_record,
            organisation_id=organisation.id,
            pool=quote.pool,
            klass=quote.klass,
            duration=Fraction(quote.document["device_seconds"]),
            reason=refusal.detail,
            now=now,
        )
        keep(note)
        _name_changes(quote, refusal, now)
        raise
    except Problem as refusal:
        if refusal.kind in {"pool-changed", "quote-expired", "wrong-processor", "processor-described-anew"}:
            _name_changes(Quote.objects.select_related("pool").get(pk=quote_id), refusal, now)
        raise


def _name_changes(quote: Quote, refusal: Problem, now: datetime) -> None:
    plan = Plan.objects.filter(pk=quote.plan_id).first() if quote.plan_id else None
    if plan is not None:
        with_changes(refusal, changes_of(plan, pool=quote.pool, now=now))


@transaction.atomic
def _accept(
    *, quote_id: UUID, organisation: Organisation, actor: User | None, now: datetime, token_id: UUID | None
) -> Contract:
    # The order of locks everywhere: organisation, contract, devices by id, hold, the ledger's chain.
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    quote = Quote.objects.select_related("pool__processor").filter(organisation=organisation).get(pk=quote_id)
    _check_acceptable(quote, now)
    window = window_of_document(quote.document)
    given = Acceptance(quote, request_lines_of(quote.document), window, actor, now, token_id)
    priced = _price_again(given)
    hold = open_hold(quote.plan_id)
    others = [] if hold is None else [hold.reservation.pool]
    if quote.amends_id is not None:
        contract_replace(contract_id=quote.amends_id, quote=quote, others=others, now=now)
        quote.refresh_from_db(fields=["amends"])
    elif hold is not None:
        devices_lock(quote.pool, *others)  # both pools at once, by id: the released hold may lie on another pool
    acceptance_check(quote, actor=actor, now=now)
    _check_commitment(quote, now)
    contract_id, held = _held(quote, hold, now)
    # Work that needs no device comes before the device locks, so that others wait less.
    contract = _contract_store(given, contract_id, uuid4() if held is None else held.pk)
    _record(given, contract, organisation)
    caps = _project_caps_check(given, priced)
    if held is None:
        reserve(
            priced,
            contract_id=contract.id,
            organisation_id=organisation.id,
            now=now,
            reservation_id=contract.reservation_id,
        )
    quota_check(
        organisation_id=organisation.pk,
        reservation_id=contract.reservation_id,
        request_lines=given.request_lines,
        token_id=token_id,
        now=now,
    )
    _hold(given, priced, contract, caps)
    return contract


def _record(given: Acceptance, contract: Contract, organisation: Organisation) -> None:
    quote = given.quote
    amended = {"amends": str(quote.amends_id)} if quote.amends_id else {}
    audit_record(
        action="quote.accept",
        subject=f"quote {quote.id}",
        actor=given.actor,
        organisation=organisation,
        now=given.now,
        detail={
            "contract": str(contract.id),
            "terms": contract.terms_digest,
            "net": decimal_text(contract.net),
            **amended,
        },
    )


def _check_acceptable(quote: Quote, now: datetime) -> None:
    if digest_of(quote.document) != quote.digest:
        raise _altered(quote, "does not have its digest")
    if quote.state == QuoteState.ACCEPTED:
        raise Problem(
            409,
            "Already accepted",
            f"This quote became contract {quote.contract.id}.",
            kind="quote-accepted",
            errors=[{"contract": str(quote.contract.id)}],
        )
    if quote.state == QuoteState.WITHDRAWN:
        raise Problem(409, "Withdrawn", "This quote was withdrawn. Make a new quote.", kind="quote-withdrawn")
    if now >= quote.valid_until:
        raise Problem(
            409,
            "Quote expired",
            f"The price was locked until {quote.valid_until:%Y-%m-%d %H:%M} UTC. Make a new quote.",
            kind="quote-expired",
        )
    if now >= window_of_document(quote.document).end:
        raise Problem(409, "Window is over", "The quoted window has passed. Make a new quote.", kind="quote-expired")


def _altered(quote: Quote, what: str) -> Problem:
    log.error("quote %s %s", quote.id, what)
    return Problem(
        409,
        "Quote altered",
        "The stored quote was altered after it was made, so it cannot be accepted. Nothing was bought. "
        f"Make a new quote, and report the altered quote, {quote.reference}, to us.",
        kind="quote-altered",
    )


def _check_commitment(quote: Quote, now: datetime) -> None:
    # The caller must hold the organisation's lock.
    commitment_id = _commitment_id(quote)
    if commitment_id is None:
        return
    commitment = Commitment.objects.get(pk=commitment_id)
    left = commitment_left(commitment)
    said = decimal_text(max(left, Decimal(0)))
    if quote.worst > left or now >= commitment.ends_at:
        raise Problem(
            409,
            "Commitment used up",
            f"This quote was priced under a commitment that has {said} {quote.currency} left. Make a new quote.",
            kind="commitment-used-up",
        )


def _commitment_id(quote: Quote) -> UUID | None:
    named = quote.document.get("commitment")
    return None if named is None else UUID(named["id"])


def _price_again(given: Acceptance) -> Priced:
    quote = given.quote
    if quote.document["pool"].get("power_percent", 100) != quote.pool.power_percent:
        raise PoolChanged(quote.pool)
    priced = request_lines_price(
        request_lines=given.request_lines,
        book=book_of_digest(quote.document["book"]["digest"]),
        klass=quote.klass,
        pool=quote.pool,
        window=given.window,
        now=given.now,
        form=Form.from_json(quote.document.get("form")),
    )
    if (priced.worst, priced.expected) != (quote.worst, quote.expected):
        raise _altered(quote, "no longer prices to what it says")
    return priced


def _held(quote: Quote, hold: PlanHold | None, now: datetime) -> tuple[UUID, Reservation | None]:
    if hold is None:
        return uuid4(), None
    if hold.quote_id != quote.pk:
        hold_end(hold, HoldState.RELEASED)
        return uuid4(), None
    reservation = reservation_claim(reservation_id=hold.reservation_id, now=now)
    hold_end(hold, HoldState.ACCEPTED if reservation else HoldState.EXPIRED)
    return (hold.contract_id if reservation else uuid4()), reservation


def reserve(
    priced: Priced,
    *,
    contract_id: UUID,
    organisation_id: UUID,
    now: datetime,
    reservation_id: UUID | None = None,
    held_until: datetime | None = None,
) -> Reservation:
    """Reserve the windows of priced work: one window if possible, otherwise several.

    `held_until`: hold the windows until this instant instead of selling them. Raises CapacityTaken.
    """
    demands = [Demand(**{key: value for key, value in one.items() if key != "pool"}) for one in priced.demands]
    return reservation_take_each(
        contract_id=contract_id,
        organisation_id=organisation_id,
        pool=priced.pool,
        demands=demands,
        windows=priced.windows,
        klass=priced.price_class.name,
        now=now,
        reservation_id=reservation_id,
        held_until=held_until,
    )


def _project_caps_check(given: Acceptance, priced: Priced) -> list[Cap]:
    # The caller must hold the organisation's lock.
    quote, shares = given.quote, project_shares(priced)
    caps = caps_of(quote.organisation_id)
    capped = {cap.project_id for cap in caps}
    for project_id, share in sorted((shares or {}).items()):
        if project_id in capped:
            project_cap_check(
                organisation_id=quote.organisation_id,
                project_id=project_id,
                amount=share,
                currency=quote.currency,
                now=given.now,
                only_promised=True,
            )
    return caps


def _hold(given: Acceptance, priced: Priced, contract: Contract, caps: list[Cap]) -> None:
    quote = given.quote
    hold_place_locked(
        organisation_id=quote.organisation_id,
        contract_id=contract.id,
        amount=quote.worst,
        currency=quote.currency,
        idempotency_key=f"quote:{quote.id}",
        now=given.now,
        shares=project_shares(priced),
        token_id=given.token_id,
        expires_at=given.window.end + HOLD_GRACE,
        caps=caps,
    )


def project_shares(priced: Priced) -> dict[UUID, Decimal] | None:
    """Return, for each project, the maximum amount that counts against the project's spend cap; None for a quota."""
    shares: dict[UUID, Decimal] = {}
    for line in priced.lines:
        project = project_uuid(line.request_line.snapshot)
        if project is None:
            return None
        shares[project] = exact_sum([shares.get(project, Decimal(0)), line.worst.amount])
    return shares


def _contract_store(given: Acceptance, contract_id: UUID, reservation_id: UUID) -> Contract:
    quote = given.quote
    terms = terms_of(quote)
    contract = Contract.objects.create(
        id=contract_id,
        organisation_id=quote.organisation_id,
        number=number_next(organisation_id=quote.organisation_id, kind=NumberKind.CONTRACT),
        name=quote.name,
        quote=quote,
        plan_id=quote.plan_id,
        pool=quote.pool,
        klass=quote.klass,
        form=quote.form,
        commitment_id=_commitment_id(quote),
        terms=terms,
        terms_digest=digest_of(terms),
        reservation_id=reservation_id,
        net=quote.worst,
        minimum=minimum_quoted(quote.document),
        currency=quote.currency,
        starts_at=given.window.start,
        ends_at=given.window.end,
        accepted_at=given.now,
        accepted_by=given.actor,
    )
    volumes_store(contract, given.request_lines)
    quote.state = QuoteState.ACCEPTED
    quote.save(update_fields=["state"])
    return contract
