"""Queries for standing requests."""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction
from typing import NamedTuple

from django.db.models import QuerySet

from apps.accounts.models import Organisation
from apps.accounts.problems import Problem
from apps.figures import duration_format
from apps.fleet.selectors import pools
from apps.pricing.limits import LONGEST_WINDOW
from apps.sales.fair_order import Waiting, protected_from
from apps.sales.models import Quote, StandingRequest
from apps.sales.request_lines import window_of_document
from apps.sales.services.quoting import pricing_make
from apps.sales.services.serving import standing_order, waiting_for
from apps.sales.standing_quotes import PERIODIC, quote_arguments
from apps.timetable.instants import instant_of, micros_of


class Place(NamedTuple):
    """The position of a request in one pool's queue, from 1 to `waiting`. `protected`: True if the request is protected."""

    pool: str
    position: int
    waiting: int
    protected: bool


class Wait(NamedTuple):
    """The expected wait of a quote's work. `start` and `seconds` are None if there is no room."""

    pool: str
    start: datetime | None
    seconds: Fraction | None
    said: str


def standing_of_organisation(organisation: Organisation) -> QuerySet[StandingRequest]:
    """Return the standing requests of an organisation, newest first."""
    rows = StandingRequest.objects.filter(organisation=organisation)
    return rows.select_related("quote", "filed_by", "contract").order_by("-filed_at", "-id")


def places_of(request: StandingRequest, *, now: datetime) -> list[Place]:
    """Return the request's position on each pool; empty if the request no longer waits."""
    found = []
    for pool in pools().filter(slug__in=request.pools).order_by("slug") if request.is_waiting else []:
        rows = waiting_for(pool, now=now)
        if request.pk not in rows:
            continue
        protected, others = standing_order(pool, list(rows.values()), now=now)
        keys = [one.key for one in [*protected, *others]]
        position = keys.index(request.pk) + 1
        found.append(Place(pool.slug, position, len(keys), position <= len(protected)))
    return found


def protected_at(request: StandingRequest) -> datetime:
    """Return the instant at which the request is old enough to be protected."""
    filed, until = micros_of(request.filed_at), micros_of(request.waits_until)
    return instant_of(protected_from(Waiting(request.pk, request.organisation_id, filed, until)))


def wait_of(quote: Quote, *, now: datetime) -> Wait | None:
    """Return how long a quote's work would wait for room on its pool.

    Return None if there is room in the quote's window, or if the work cannot wait or cannot be priced.
    """
    window = window_of_document(quote.document)
    if quote.form in PERIODIC or quote.amends_id is not None or now >= window.end:
        return None
    tried = ((window.start, window.end), (max(now, window.start), now + LONGEST_WINDOW - timedelta(minutes=1)))
    try:
        asked = quote_arguments(quote)
        for number, period in enumerate(tried):
            priced = pricing_make(
                organisation=quote.organisation, klass=quote.klass, pool=quote.pool, window=period, now=now, **asked
            ).priced
            slots = priced.preview(now=now)
            if slots is not None:
                return None if number == 0 else _wait(quote, min(slot.start for slot in slots), now)
    except Problem:
        return None
    return Wait(
        quote.pool.slug,
        None,
        None,
        f"Pool {quote.pool.slug} has no room for this work in the next {LONGEST_WINDOW.days} days.",
    )


def _wait(quote: Quote, start: datetime, now: datetime) -> Wait:
    seconds = Fraction((start - now) // timedelta(microseconds=1), 10**6)
    said = (
        f"Pool {quote.pool.slug} has room from {start:%Y-%m-%d %H:%M} UTC, after a wait of {duration_format(seconds)}."
    )
    return Wait(quote.pool.slug, start, seconds, said)
