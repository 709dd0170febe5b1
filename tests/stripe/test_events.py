"""Events: junk is refused, one that fails is set aside and tried again, and those behind it go on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import stripe
from django.test import Client
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django import Settings as SettingsWrapper

from apps.accounts.models import User
from apps.collection.events import event_keep, events_catch_up, events_due
from apps.collection.models import StripeEvent
from apps.invoicing.models import Invoice
from tests.cast import Cast
from tests.stripe.conftest import SECRET
from tests.stripe.double.delivering import signature
from tests.stripe.double.store import Fault, Store
from tests.stripe.sold import all_equal, pay, pushed
from tests.tiers import some

pytestmark = pytest.mark.django_db


def _sent(body: bytes, *, header: str = "") -> int:
    """The status of a delivery that is signed as it should be."""
    signed = header or signature(body.decode("utf-8", "replace"), secret=SECRET, at=int(time.time()))
    answer = Client().post(
        "/stripe/webhook", body, content_type="application/json", headers={"stripe-signature": signed}
    )
    return answer.status_code


def _event(**other: Any) -> dict[str, Any]:
    whole = {
        "id": "evt_1",
        "object": "event",
        "type": "invoice.paid",
        "created": 1_795_000_000,
        "data": {"object": {"id": "in_1"}},
    }
    return {**whole, **other}


JUNK = [
    b"",
    b"junk",
    b"[]",
    b"null",
    b"7",
    b'"evt_1"',
    b"{}",
    b"\xff\xfe",
    b"[" * 20_000,
    b'{"object": "event"}',
    *(
        json.dumps(one).encode()
        for one in (
            _event(object="charge"),
            _event(id=5),
            _event(id=""),
            _event(id="e" * 81),
            _event(id=None),
            _event(id="evt\0"),
            _event(type=[]),
            _event(type="t" * 81),
            _event(created="now"),
            _event(created=True),
            _event(created=10**30),
            _event(created=1.5),
            _event(data=None),
            _event(data={}),
            _event(data={"object": "in_1"}),
            _event(data={"object": {}}),
            _event(data={"object": {"id": 7}}),
            _event(data={"object": {"id": None}}),
            _event(data={"object": {"id": {"id": "in_1"}}}),
            _event(created=float("nan")),
            _event(more=float("inf")),
            _event(type="credit_note.created", data={"object": {"id": "cn_1", "invoice": 3}}),
        )
    ),
]


@pytest.mark.parametrize("body", JUNK, ids=range(len(JUNK)))
def test_signed_junk_is_a_bad_request(store: Store, body: bytes) -> None:
    assert _sent(body) == 400
    assert not StripeEvent.objects.exists()


@pytest.mark.parametrize("header", ["t=1", "t=x,v1=y", "v1=é", "t=1,v1=é", ","])
def test_a_header_that_is_no_signature_is_a_bad_request(store: Store, header: str) -> None:
    assert _sent(b"{}", header=header) == 400


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=some(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(change=st.dictionaries(st.sampled_from(["id", "object", "type", "created", "data", "more"]), _JSON), how=_JSON)
def test_whatever_is_signed_is_kept_or_refused(store: Store, change: dict[str, Any], how: Any) -> None:
    assert _sent(json.dumps(_event(**change)).encode()) in {200, 400}
    assert _sent(json.dumps(how).encode()) == 400


@pytest.mark.parametrize("text", ["\0 in a name", "half of a pair \ud83d", "a\\u0000 that was escaped"])
def test_text_that_the_database_cannot_keep_loses_no_event(store: Store, text: str) -> None:
    assert _sent(json.dumps(_event(more={text: [text]})).encode()) == 200
    assert StripeEvent.objects.get().pk == "evt_1"


def test_an_event_whose_handler_fails_does_not_stop_those_behind_it(
    cast: Cast, client: stripe.StripeClient, as_user: Callable[[User], Client]
) -> None:
    """Kept before events were checked: it lacks what its type should have."""
    push, now = pushed(cast, client), timezone.now()
    broken = _event(id="evt_0", created=1, type="charge.dispute.created", data={"object": {"id": ["du_1"]}})
    worse = _event(id="evt_00", created=2, data=[])
    for one in (broken, worse):
        event_keep(one, now=now)
    pay(client, push)
    events_catch_up(client=client, now=now)
    assert Invoice.objects.get().state == "paid"
    waiting = StripeEvent.objects.filter(handled_at=None)
    assert set(waiting.values_list("pk", "attempts")) == {("evt_0", 1), ("evt_00", 1)}
    assert events_due(now=now) == []
    for days in range(1, 4):  # tried again, ever more rarely, and never given up
        assert len(events_due(now=now + timedelta(days=days))) == 2
        events_catch_up(client=client, now=now + timedelta(days=days))
    assert set(waiting.values_list("attempts", flat=True)) == {4}
    page = as_user(cast.admin).get("/stripe?events=waiting").content.decode()
    assert "evt_00" in page
    assert "TypeError" in page
    unknown = as_user(cast.admin).get("/stripe?events=nonsense").content.decode()
    assert "There is no status “nonsense”, so events of every status are shown. Choose All or Waiting." in unknown
    assert "Next attempt" in as_user(cast.admin).get("/stripe/events/evt_0").content.decode()
    all_equal(cast, client)


def test_an_event_about_what_is_gone_is_handled(cast: Cast, store: Store, client: stripe.StripeClient) -> None:
    now = timezone.now()
    event_keep(_event(), now=now)
    events_catch_up(client=client, now=now)
    event = StripeEvent.objects.get(pk="evt_1")
    assert event.handled_at == now
    assert event.error == "The object no longer exists at Stripe."


def test_an_outage_is_asked_again_at_the_next_turn(
    cast: Cast, store: Store, client: stripe.StripeClient, settings: SettingsWrapper
) -> None:
    push, now = pushed(cast, client), timezone.now()
    pay(client, push)
    store.faults = [Fault("GET", "/v1/invoices/*", "500", 100)]
    events_catch_up(client=client, now=now)
    assert StripeEvent.objects.filter(handled_at=None).exists()
    store.faults = []
    events_catch_up(client=client, now=now)
    assert not StripeEvent.objects.filter(handled_at=None).exists()
