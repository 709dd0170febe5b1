"""Our pages about Stripe: payment methods for customers; synchronisation, checks and events for administrators."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import stripe
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from apps.accounts.access import organisation_get, platform_admin_check
from apps.accounts.models import Organisation
from apps.accounts.paging import page_of
from apps.accounts.roles import MONEY
from apps.accounts.unknown_filters import unknown_filter
from apps.collection import cards
from apps.collection.catalogue import EVENTS
from apps.collection.customers import client_of_settings
from apps.collection.events import event_handle, events_catch_up
from apps.collection.gateway import OutcomeUnknown
from apps.collection.models import PushState, StripeCall, StripeCheck, StripeCustomer, StripeEvent, StripePush
from apps.collection.push import push_retry
from apps.collection.reconciliation import check_run
from apps.pricing.selectors import book_in_force

PER_PAGE = 25
STATES = {
    "added": ("success", "Card saved. New invoices are charged to this card automatically."),
    "cancelled": ("info", "No card was added; nothing has changed."),
    "back": ("success", "Changes made at Stripe have been saved."),
    "later": ("info", "Stripe is not responding. Changes made at Stripe appear here within a minute."),
    "unfinished": ("info", "No card was saved. You can add a card at any time."),
}
LATER = "Stripe is not responding. Nothing was changed. Try again in a minute."


@require_http_methods(["GET", "POST"])
def payment_methods(request: HttpRequest) -> HttpResponse:
    """The page of the saved card. A POST redirects to a page at Stripe."""
    organisation = organisation_get(request, roles=MONEY)
    if not settings.STRIPE_API_KEY:
        return render(request, "collection/payment_methods.html", {"is_on": False})
    if request.method == "POST":
        return _stripe_redirect(request, organisation)
    state = _state(request, organisation)
    if state:
        level, text = STATES[state]
        messages.add_message(request, getattr(messages, level.upper()), text)
    customer = StripeCustomer.objects.filter(organisation=organisation).first()
    context = {"is_on": True, "is_test": cards.is_test(), "customer": customer}
    answer = render(request, "collection/payment_methods.html", context)
    answer._csp_update = {"form-action": list(cards.hosts())}  # type: ignore[attr-defined]  # the forms redirect to Stripe
    return answer


def _address(request: HttpRequest, **query: str) -> str:
    place = request.build_absolute_uri(reverse("collection:payment_methods"))
    return f"{place}?{urlencode(query, safe='{}')}"  # Stripe fills in the braces


def _stripe_redirect(request: HttpRequest, organisation: Organisation) -> HttpResponse:
    client, now = client_of_settings(), timezone.now()
    try:
        if request.POST.get("action") == "manage":
            back = _address(request, state="back")
            return redirect(cards.portal_open(organisation=organisation, return_url=back, client=client, now=now))
        place = cards.checkout_open(
            organisation=organisation,
            currency=book_in_force(at=now).currency,
            client=client,
            now=now,
            success_url=_address(request, session="{CHECKOUT_SESSION_ID}"),
            cancel_url=_address(request, state="cancelled"),
        )
    except (OutcomeUnknown, stripe.StripeError):
        messages.error(request, LATER)
        return redirect("collection:payment_methods")
    return redirect(place)


def _state(request: HttpRequest, organisation: Organisation) -> str:
    session, state = request.GET.get("session", ""), request.GET.get("state", "")
    known = StripeCustomer.objects.filter(organisation=organisation).first()
    if known is None or not (session or state):
        return ""
    client, now = client_of_settings(), timezone.now()
    try:
        if session:
            found = cards.session_sync(session_id=session, client=client, now=now)
            return "added" if found == known and found.payment_method else "unfinished"
        if state == "back":
            cards.customer_sync(customer_id=known.customer_id, client=client)
    except stripe.InvalidRequestError:
        return "unfinished"
    except (OutcomeUnknown, stripe.StripeError):
        return "later"
    return state if state in {"back", "cancelled"} else ""


@require_http_methods(["GET", "POST"])
def overview(request: HttpRequest) -> HttpResponse:
    """The Stripe page for administrators."""
    platform_admin_check(request)
    if request.method == "POST":
        _action_run(request)
        return redirect("collection:stripe_overview")
    events, wanted = StripeEvent.objects.all(), request.GET.get("events", "all")
    unknown = []
    if wanted == "waiting":
        events = events.filter(handled_at=None)
    elif wanted != "all":
        unknown, wanted = [unknown_filter("status", wanted, rows="events", labels=("All", "Waiting"))], "all"
    check = StripeCheck.objects.first()
    context = {
        "is_on": bool(settings.STRIPE_API_KEY),
        "is_test": cards.is_test(),
        "has_secret": bool(settings.STRIPE_WEBHOOK_SECRET),
        "check": check,
        "differences": "not compared" if check is None else len(check.differences),
        "pushes": StripePush.objects.filter(state__in=[PushState.WAITING, PushState.MISMATCH])
        .select_related("invoice__organisation")
        .order_by("version_at")[:PER_PAGE],
        "calls": StripeCall.objects.filter(settled_at=None).select_related("invoice", "organisation")[:PER_PAGE],
        "waiting": StripeEvent.objects.filter(handled_at=None).count(),
        "wanted": wanted,
        "unknown": unknown,
        "tabs": [("?events=all", "All"), ("?events=waiting", "Waiting")],
        "tab": "Waiting" if wanted == "waiting" else "All",
        "page": page_of(request, events.defer("payload"), ordering=("-created", "-id"), size=PER_PAGE),
    }
    return render(request, "collection/overview.html", context)


def _action_run(request: HttpRequest) -> None:
    client, now, action = client_of_settings(), timezone.now(), request.POST.get("action")
    if not settings.STRIPE_API_KEY:
        messages.error(request, "No API key is set.")
        return
    try:
        if action == "compare":
            check = check_run(client=client, now=now)
            count = len(check.differences)
            messages.success(request, "No differences found.") if not count else messages.error(
                request, f"{count} difference{'' if count == 1 else 's'} found, listed below."
            )
        elif action == "catch-up":
            messages.success(request, f"{events_catch_up(client=client, now=now)} events handled.")
        elif action == "bring":
            push = _push(request.POST.get("invoice", ""))
            done = push_retry(invoice_id=push.pk, client=client, now=now)
            messages.info(request, f"Invoice {done.invoice.number}: {done.get_state_display().lower()}.")
    except (OutcomeUnknown, stripe.StripeError) as outage:
        messages.error(request, f"{LATER} ({outage})")


def _push(value: str) -> StripePush:
    try:
        return StripePush.objects.get(pk=UUID(value))
    except (ValueError, StripePush.DoesNotExist):
        raise Http404 from None


@require_http_methods(["GET", "POST"])
def event_detail(request: HttpRequest, pk: str) -> HttpResponse:
    """The page of one event as delivered, for administrators. A POST handles the event again."""
    platform_admin_check(request)
    event = StripeEvent.objects.filter(pk=pk).first()
    if event is None:
        raise Http404
    if request.method == "POST":
        if not settings.STRIPE_API_KEY:
            messages.error(request, "No API key is set.")
        elif event_handle(event_id=pk, client=client_of_settings(), now=timezone.now(), again=True):
            messages.success(request, "Event handled. The object was fetched from Stripe again.")
        else:
            messages.error(request, "The event could not be handled. See the reason below.")
        return redirect("collection:stripe_event", pk=pk)
    context: dict[str, Any] = {
        "event": event,
        "payload": json.dumps(event.payload, indent=2, sort_keys=True),
        "is_recorded": EVENTS.get(event.type) is None,
    }
    return render(request, "collection/event.html", context)
