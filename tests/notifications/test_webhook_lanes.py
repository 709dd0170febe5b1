"""Who is sent what, and when: bounds for each receiver, organisation and lane, and receivers that are backed off."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest
from pytest_django import Settings as SettingsWrapper

from apps.accounts.models import Organisation, User
from apps.notifications.models import WebhookAttempt, WebhookDelivery, WebhookEndpoint
from apps.notifications.webhooks import delivering, sending, services
from apps.notifications.webhooks.addresses import is_public
from apps.notifications.webhooks.sending import Response, post
from tests.cast import Cast
from tests.ledger.money import NOW


@pytest.fixture(autouse=True)
def _private(settings: SettingsWrapper) -> None:
    settings.WEBHOOK_PRIVATE_ADDRESSES = True


def endpoint(cast: Cast, organisation: Organisation | None = None, **state: object) -> WebhookEndpoint:
    """An endpoint with ten messages that are due."""
    made = services.endpoint_create(
        organisation=organisation or cast.organisation,
        url=f"http://127.0.0.1:9/{uuid4().hex}",
        topics=["usage"],
        actor=cast.owner,
        now=NOW,
    )
    WebhookEndpoint.objects.filter(pk=made.pk).update(**state)
    made.refresh_from_db()
    for _ in range(10):
        services.test_message(endpoint=made, now=NOW)
    WebhookEndpoint.objects.filter(pk=made.pk).update(paused_until=made.paused_until)
    return made


def claimed(now: datetime = NOW) -> list[UUID]:
    """The endpoints of what a dispatcher would hand to workers now."""
    found: list[UUID] = []
    delivering.deliveries_offer(now=now, send=lambda pk, _: found.append(pk))
    by_id = dict(WebhookDelivery.objects.filter(pk__in=found).values_list("pk", "endpoint_id"))
    return [by_id[pk] for pk in found]


def others(count: int, person: User) -> list[Organisation]:
    return [Organisation.objects.create(name=f"Org {n}", slug=f"org-{n}") for n in range(count)]


@pytest.mark.django_db
def test_a_receiver_that_was_never_called_gets_one_message_and_a_prompt_one_four(cast: Cast) -> None:
    new, prompt = endpoint(cast), endpoint(cast, cast.stranger_organisation, prompt_at=NOW)
    assert Counter(claimed()) == {new.pk: 1, prompt.pk: delivering.ENDPOINT_MAX}
    assert claimed() == []  # what is on its way counts
    again = NOW + delivering.CLAIMED  # whoever sent them died
    assert Counter(claimed(again)) == {new.pk: 1, prompt.pk: delivering.ENDPOINT_MAX}


@pytest.mark.django_db
def test_however_many_new_receivers_there_are_those_who_answer_keep_half_of_the_places(
    cast: Cast, settings: SettingsWrapper
) -> None:
    settings.WEBHOOK_CONCURRENCY = 8
    for organisation in others(12, cast.owner):
        endpoint(cast, organisation)
    assert len(claimed()) == 4
    prompt = endpoint(cast, prompt_at=NOW)
    assert claimed() == [prompt.pk] * 4


@pytest.mark.django_db
def test_one_organisation_holds_four_places_and_leaves_the_others_to_others(cast: Cast) -> None:
    for _ in range(6):
        endpoint(cast, prompt_at=NOW)
    other = endpoint(cast, cast.stranger_organisation, prompt_at=NOW)
    found = Counter(claimed())
    assert found[other.pk] == delivering.ENDPOINT_MAX
    assert found.total() == delivering.ORGANISATION_MAX + delivering.ENDPOINT_MAX


@pytest.mark.django_db
def test_those_who_waited_longest_come_first(cast: Cast, settings: SettingsWrapper) -> None:
    settings.WEBHOOK_CONCURRENCY = 2  # one place in the lane of the new
    first, second = (endpoint(cast, organisation) for organisation in others(2, cast.owner))
    turns = [claimed(NOW + number * delivering.CLAIMED) for number in range(4)]
    assert turns in ([[first.pk], [second.pk]] * 2, [[second.pk], [first.pk]] * 2)


@pytest.mark.django_db
@pytest.mark.parametrize("status", [None, 429, 500, 503])
def test_a_receiver_without_an_answer_is_left_alone_longer_each_time(
    cast: Cast, monkeypatch: pytest.MonkeyPatch, status: int | None
) -> None:
    one = endpoint(cast, prompt_at=NOW)
    monkeypatch.setattr(delivering, "post", lambda *_, **__: Response(status, "", ""))
    now, pauses = NOW, []
    for _ in range(12):
        claims: list[tuple[UUID, int]] = []
        delivering.deliveries_offer(now=now, send=lambda pk, n, kept=claims: kept.append((pk, n)))  # type: ignore[misc]
        assert len(claims) == (delivering.ENDPOINT_MAX if now == NOW else 1)
        for pk, attempt in claims:
            delivering.delivery_send(delivery_id=pk, attempt=attempt, clock=lambda: now)  # noqa: B023
        one.refresh_from_db()
        assert one.paused_until is not None
        assert claimed(one.paused_until - timedelta(microseconds=1)) == []
        pauses.append(one.paused_until - now)
        now = one.paused_until
    assert pauses[1:] == sorted(pauses[1:])
    assert pauses[-1] == delivering.LONGEST_ENDPOINT_PAUSE
    monkeypatch.setattr(delivering, "post", lambda *_, **__: Response(200, "", ""))
    sent: list[UUID] = []

    def send(pk: UUID, attempt: int) -> None:
        sent.append(pk)
        delivering.delivery_send(delivery_id=pk, attempt=attempt, clock=lambda: now)

    delivering.deliveries_offer(now=now, send=send)
    one.refresh_from_db()
    assert (len(sent), one.failures, one.paused_until) == (1, 0, None)
    delivering.deliveries_offer(now=now, send=send)
    assert len(sent) == 1 + delivering.ENDPOINT_MAX


@pytest.mark.django_db
def test_an_answer_that_takes_its_time_leads_to_the_slow_lane(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    one = endpoint(cast, prompt_at=NOW)
    monkeypatch.setattr(delivering, "post", lambda *_, **__: Response(200, "", ""))
    times = iter([NOW, NOW + delivering.PROMPT * 2])
    claims: list[tuple[UUID, int]] = []
    delivering.deliveries_offer(now=NOW, send=lambda pk, n: claims.append((pk, n)))
    assert delivering.delivery_send(delivery_id=claims[0][0], attempt=claims[0][1], clock=lambda: next(times))
    one.refresh_from_db()
    assert (one.prompt_at, one.failures) == (None, 0)


@pytest.mark.django_db
def test_the_signed_time_is_that_of_the_attempt_not_of_the_claim(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint(cast)
    seen: list[str] = []

    def taken(url: str, *, body: bytes, headers: dict[str, str]) -> Response:
        seen.append(headers["webhook-timestamp"])
        return Response(200, "", "")

    monkeypatch.setattr(delivering, "post", taken)
    later = NOW + timedelta(seconds=40)
    send = lambda pk, n: delivering.delivery_send(delivery_id=pk, attempt=n, clock=lambda: later)  # noqa: E731
    delivering.deliveries_offer(now=NOW, send=send)
    assert seen == [str(int(later.timestamp()))]
    assert WebhookAttempt.objects.get().at == later


@pytest.mark.django_db
def test_a_claim_that_is_over_or_anothers_is_left_alone(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint(cast)
    monkeypatch.setattr(delivering, "post", lambda *_, **__: pytest.fail("it was sent"))
    claims: list[tuple[UUID, int]] = []
    delivering.deliveries_offer(now=NOW, send=lambda pk, n: claims.append((pk, n)))
    ((pk, attempt),) = claims
    over = NOW + delivering.CLAIMED
    assert not delivering.delivery_send(delivery_id=pk, attempt=attempt, clock=lambda: over)
    assert not delivering.delivery_send(delivery_id=pk, attempt=attempt + 1, clock=lambda: NOW)


def test_a_receiver_that_sends_a_byte_at_a_time_is_cut_off(settings: SettingsWrapper) -> None:
    settings.WEBHOOK_SECONDS = 1
    server = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def drip() -> None:
        connection, _ = server.accept()
        with connection:
            for sign in b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 1000:
                try:
                    connection.send(bytes([sign]))
                except OSError:
                    return
                if stop.wait(0.05):
                    return

    threading.Thread(target=drip, daemon=True).start()
    answer = post(f"http://127.0.0.1:{server.getsockname()[1]}/", body=b"{}", headers={})
    stop.set()
    server.close()
    assert (answer.status, answer.error) == (None, "No complete response within 1 seconds.")


INTERNAL = [
    "64:ff9b::a9fe:a9fe",
    "64:ff9b::8.8.8.8",
    "64:ff9b:1::10.0.0.1",
    "2002:7f00:1::",
    "2002:808:808::1",
    "2001::1",
    "2001:0:4136:e378::1",
    "::ffff:10.0.0.1",
    "::ffff:8.8.8.8",
    "::10.0.0.1",
    "::127.0.0.1",
    "::8.8.8.8",
    "::",
    "::1",
    "fe80::1",
    "fc00::1",
    "fd12::1",
    "ff02::1",
    "100::1",
    "2001:db8::1",
    "3fff::1",
    "5f00::1",
    "10.0.0.1",
    "127.0.0.1",
    "169.254.169.254",
    "100.64.0.1",
    "192.0.0.8",
    "192.88.99.1",
    "198.18.0.1",
    "203.0.113.5",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "0.0.0.0",  # noqa: S104 - it is refused
]


@pytest.mark.parametrize("text", INTERNAL)
def test_addresses_that_lead_inside_or_nowhere_are_not_public(text: str) -> None:
    assert not is_public(text)


@pytest.mark.parametrize("text", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "2a00:1450:4001::1", "2400:cb00::1"])
def test_addresses_of_the_internet_are_public(text: str) -> None:
    assert is_public(text)


@pytest.mark.django_db
@pytest.mark.parametrize("text", ["64:ff9b::a9fe:a9fe", "2002:7f00:1::", "::10.0.0.1", "::ffff:127.0.0.1"])
def test_an_internal_address_is_refused_at_registration_and_again_at_delivery(
    cast: Cast, settings: SettingsWrapper, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    settings.WEBHOOK_PRIVATE_ADDRESSES = False
    with pytest.raises(services.Problem, match="not a public address"):
        services.endpoint_create(
            organisation=cast.organisation, url=f"https://[{text}]/", topics=["usage"], actor=cast.owner, now=NOW
        )
    # A name that led outside when it was registered leads inside when it is called: nothing is connected to.
    monkeypatch.setattr(sending, "_lookup", lambda *_: ["8.8.8.8", text])
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: pytest.fail("it was called"))
    assert "not a public address" in post("https://rebound.example/", body=b"{}", headers={}).error
