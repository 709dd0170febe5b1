"""Serve standing requests: offer them the free time of a pool in the order of `apps/sales/fair_order.py`.

Each request is served in its own transaction. Only one process at a time serves a pool.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import structlog
from django.db import transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from django.db.models import Max

from apps.accounts.problems import Problem
from apps.accounts.turns import turn
from apps.figures import money_exact_format
from apps.fleet.models import Pool
from apps.fleet.selectors import devices_of, pools
from apps.ledger.services import hold_release
from apps.sales.fair_order import CLAIMS_MOST, Claim, Free, Waiting, claim_of, order, without
from apps.sales.models import Contract, StandingRequest, StandingState
from apps.sales.priced import Priced
from apps.sales.services.accepting import quote_accept
from apps.sales.services.hold_ending import open_hold
from apps.sales.services.quoting import pricing_make, quote_create
from apps.sales.services.standing import KEPT
from apps.sales.services.waiting import (
    standing_expire_due,
    standing_locked,
    standing_refuse,
    standing_served,
)
from apps.sales.standing_quotes import missing_right, quote_arguments
from apps.timetable.admission import Placement, intersect, place, total
from apps.timetable.expiry import expired_release_of
from apps.timetable.instants import instant_of, micros_of
from apps.timetable.models import Reservation, Window
from apps.timetable.selectors import WINDOWS_MAX, Demand, free_by_device, windows_tried
from apps.timetable.services import devices_lock

AT_ONCE = 100  # requests that one call serves on one pool
# Refusals that end a request although there is room: its money or its rights are gone.
FINAL = {"spend-cap", "spend-cap-currency", "credit-limit", "email-not-confirmed", "standing-right"}

log = structlog.get_logger("standing")


@dataclass(frozen=True)
class NotServed:
    """The reason why a request was not served. `claim`: the free time that the request can claim; None if there is no claim."""

    kind: str
    reason: str
    claim: Claim | None = None


@dataclass
class Round:
    """One pass over the waiting requests of a pool."""

    pool: Pool
    now: datetime
    until: datetime
    free: Free = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    reasons: dict[UUID, NotServed] = field(default_factory=dict)
    served: int = 0

    def read_free_time(self) -> None:
        """Read the free time of the pool's devices."""
        self.free = free_by_device(devices_of(self.pool), self.now, self.until, now=self.now)

    @property
    def offered(self) -> Free:
        return without(self.free, self.claims)


def standing_serve_all(*, now: datetime) -> int:
    """End expired requests, then serve every pool that has waiting requests. Return the number of requests served."""
    standing_expire_due(now=now)
    waiting = StandingRequest.objects.filter(state=StandingState.WAITING).values_list("pools", flat=True)
    return sum(standing_serve(pool=slug, now=now) for slug in sorted({slug for slugs in waiting for slug in slugs}))


def standing_serve(*, pool: str, now: datetime) -> int:
    """Offer the free time of a pool to waiting requests. Return the number of requests that became contracts."""
    row = pools().filter(slug=pool).first()
    if row is None:
        return 0
    with turn(f"standing:{pool}") as is_ours:
        return _serve_pool(row, now) if is_ours else 0


def _serve_pool(pool: Pool, now: datetime) -> int:
    rows = waiting_for(pool, now=now)
    if not rows:
        return 0
    this = Round(pool, now, max(row.until for row in rows.values()))
    protected, others = standing_order(pool, list(rows.values()), now=now)
    this.read_free_time()
    for number, one in enumerate([*protected, *others]):
        request = rows[one.key]
        may_claim = number < len(protected) and len(this.claims) < CLAIMS_MOST
        refused = _try(request, this, may_claim)
        if refused is None:
            this.served += 1
            this.read_free_time()
            if this.served >= AT_ONCE:
                break
            continue
        this.reasons[request.pk] = refused
        if may_claim and refused.claim is not None:
            this.claims.append(refused.claim)
    _reasons_keep(rows, this.reasons)
    return this.served


def waiting_for(pool: Pool, *, now: datetime) -> dict[Any, StandingRequest]:
    """Return the requests that wait for room on a pool, by id."""
    rows = StandingRequest.objects.filter(state=StandingState.WAITING, pools__contains=[pool.slug], waits_until__gt=now)
    return {row.pk: row for row in rows.select_related("organisation", "quote", "filed_by", "token")}


def standing_order(
    pool: Pool, rows: Sequence[StandingRequest], *, now: datetime
) -> tuple[list[Waiting], list[Waiting]]:
    """Return the pool's protected requests and its other waiting requests, both in the order of service."""
    served = StandingRequest.objects.filter(state=StandingState.SERVED, contract__pool=pool).order_by()
    oldest = min(row.filed_at for row in rows)
    filed = sorted(served.filter(filed_at__gt=oldest).values_list("filed_at", flat=True))
    last = dict(served.values_list("organisation_id").annotate(last=Max("ended_at")))
    waiting = [
        Waiting(
            row.pk,
            row.organisation_id,
            micros_of(row.filed_at),
            micros_of(row.waits_until),
            len(filed) - bisect_right(filed, row.filed_at),
        )
        for row in rows
    ]
    return order(waiting, {key: micros_of(at) for key, at in last.items()}, micros_of(now))


def _try(request: StandingRequest, this: Round, may_claim: bool) -> NotServed | None:
    try:
        found = _prospect(request, this, may_claim)
        if isinstance(found, NotServed):
            return found
        _serve(request, this)
    except Problem as refused:
        if refused.kind in FINAL:
            standing_refuse(
                request_id=request.pk,
                organisation_id=request.organisation_id,
                reason=refused.detail,
                kind=refused.kind,
                now=this.now,
            )
        return NotServed(refused.kind, refused.detail)
    except Exception:
        log.exception("standing request", request=str(request.pk))
        return NotServed("internal-error", "An internal error occurred. We are looking into it.")
    return None


def _prospect(request: StandingRequest, this: Round, may_claim: bool) -> Priced | NotServed:
    offered = this.offered
    if not may_claim and request.least_us > _free_of(request, offered, this.now):
        return _no_room(request, this, None)  # no price is needed to know that
    priced = _priced(request, this)
    if priced.worst > request.most:
        return _too_dear(request, priced)
    demands = [Demand(**{key: value for key, value in one.items() if key != "pool"}) for one in priced.demands]
    if all(_fits(one, offered, this.now) for one in demands):
        return priced
    claim = None
    if len(demands) == 1 and demands[0].not_before < demands[0].not_after:
        (demand,) = demands
        demand = demand._replace(windows_max=WINDOWS_MAX if demand.quantum is not None else 1)
        claim = claim_of(demand.work(), offered, demand.limits(now=this.now))
    return _no_room(request, this, claim)


def _free_of(request: StandingRequest, free: Free, now: datetime) -> int:
    begin, end = micros_of(max(now, request.begins_at)), micros_of(request.until)
    return sum(max(0, min(one.end, end) - max(one.start, begin)) for slots in free.values() for one in slots)


def _priced(request: StandingRequest, this: Round) -> Priced:
    return pricing_make(
        organisation=request.organisation,
        klass=request.klass,
        pool=this.pool,
        window=(request.begins_at, request.until),
        now=this.now,
        **quote_arguments(request.quote),
    ).priced


def _fits(demand: Demand, free: Free, now: datetime) -> bool:
    if demand.not_before >= demand.not_after:
        return False
    tried = [demand._replace(windows_max=most) for most in windows_tried(demand.quantum)]
    return any(isinstance(place(one.work(), free, one.limits(now=now)), Placement) for one in tried)


def _too_dear(request: StandingRequest, priced: Priced) -> NotServed:
    price, most = (money_exact_format(one, request.currency) for one in (priced.worst, request.most))
    return NotServed("price", f"The price on {priced.pool.slug} is now {price}, above the maximum of {most}.")


def _no_room(request: StandingRequest, this: Round, claim: Claim | None) -> NotServed:
    return NotServed(
        "room", f"Pool {this.pool.slug} has no room for this work before {request.until:%Y-%m-%d %H:%M} UTC.", claim
    )


@transaction.atomic
def _serve(request: StandingRequest, this: Round) -> Contract:
    # The order of locks everywhere: organisation, contract, devices by id, hold, the ledger's chain.
    row = standing_locked(request.pk, request.organisation_id)
    if not row.is_waiting or this.now >= row.waits_until:
        raise Problem(409, "Not waiting", "This request has ended.", kind="standing-over")
    lost = missing_right(row, now=this.now)
    if lost:
        raise Problem(403, "No longer allowed", lost, kind="standing-right")
    quote = quote_create(
        organisation=row.organisation,
        klass=row.klass,
        pool=this.pool,
        window=(row.begins_at, row.until),
        plan_id=request.quote.plan_id,
        candidate=request.quote.document.get("promises", {}).get("number"),
        actor=row.filed_by,
        now=this.now,
        **quote_arguments(request.quote),
    )
    if quote.worst > row.most or quote.currency != row.currency:
        raise Problem(
            409, "Above the price", "The price is now above the maximum of the request.", kind="standing-above-price"
        )
    hold = open_hold(quote.plan_id)  # acceptance releases it
    locked = devices_lock(this.pool, *([] if hold is None else [hold.reservation.pool]))
    devices = [device for device in locked if device.pool_id == this.pool.pk]
    expired_release_of([this.pool.slug], now=this.now)  # claims may lie on expired windows
    hold_release(contract_id=row.pk, now=this.now)
    kept = _claims_stand(this, row.organisation_id, free_by_device(devices, this.now, this.until, now=this.now))
    contract = quote_accept(
        quote_id=quote.pk, organisation=row.organisation, actor=row.filed_by, now=this.now, token_id=row.token_id
    )
    for one in kept:
        Window.objects.filter(reservation=one).delete()
        one.delete()
    standing_served(row, contract=contract, now=this.now)
    return contract


def _claims_stand(this: Round, organisation_id: UUID, free: Free) -> list[Reservation]:
    # Admission control avoids stored windows. The caller deletes these windows before the commit.
    if not total([part for claim in this.claims for parts in claim.kept.values() for part in parts]):
        return []
    reservation = Reservation.objects.create(
        contract_id=uuid4(), organisation_id=organisation_id, pool=this.pool, klass=KEPT, created_at=this.now
    )
    Window.objects.bulk_create(
        Window(
            reservation=reservation,
            device_id=UUID(device),
            period=DateTimeTZRange(instant_of(part.start), instant_of(part.end), "[)"),
        )
        for claim in this.claims
        for device, parts in claim.kept.items()
        for part in intersect(parts, free.get(device, []))
    )
    return [reservation]


def _reasons_keep(rows: dict[Any, StandingRequest], reasons: dict[UUID, NotServed]) -> None:
    for key, found in reasons.items():
        if (rows[key].reason_kind, rows[key].reason) != (found.kind, found.reason[:400]):
            StandingRequest.objects.filter(pk=key, state=StandingState.WAITING).update(
                reason_kind=found.kind, reason=found.reason[:400]
            )
