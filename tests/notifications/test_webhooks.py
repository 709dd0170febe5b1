"""Signed messages arrive at a real HTTP server, again and again until they do."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.server
import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from html import unescape

import pytest
from django.core import mail
from django.db import transaction
from django.test import Client
from django.utils import timezone
from pytest_django import Settings as SettingsWrapper

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.invoicing.outbox import outbox_deliver, outbox_write
from apps.notifications.models import WebhookDelivery, WebhookEndpoint
from apps.notifications.webhooks import services
from apps.notifications.webhooks.sending import Refused, address_of, post
from tests.cast import Cast
from tests.ledger.money import NOW, held, used
from tests.notifications.sending import send_due

LONG = timedelta(hours=6)


@dataclass
class Receiver:
    """A server that keeps what it was sent and answers what the test wants."""

    url: str = ""
    status: int = 200
    seen: list[tuple[dict[str, str], bytes]] = field(default_factory=list)


@pytest.fixture
def receiver(settings: SettingsWrapper) -> Iterator[Receiver]:
    settings.WEBHOOK_PRIVATE_ADDRESSES = True
    kept = Receiver()

    class Answering(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            kept.seen.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(kept.status)
            if kept.status == 302:
                self.send_header("Location", "http://127.0.0.1:1/")
            self.end_headers()
            self.wfile.write(b"heard" * 1000)

        def log_message(self, *words: object) -> None:
            """Silence."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    kept.url = f"http://127.0.0.1:{server.server_address[1]}/hook?a=1"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield kept
    server.shutdown()
    server.server_close()


def endpoint_of(cast: Cast, url: str, *topics: str) -> WebhookEndpoint:
    return services.endpoint_create(
        organisation=cast.organisation, url=url, topics=topics or ("usage",), actor=cast.owner, now=NOW
    )


def is_signed(secret: str, headers: dict[str, str], body: bytes) -> bool:
    """What a receiver does, written from the public description."""
    key = base64.b64decode(secret.split("_", 1)[1])
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{body.decode()}"
    wanted = base64.b64encode(hmac.new(key, content.encode(), hashlib.sha256).digest()).decode()
    return any(hmac.compare_digest(f"v1,{wanted}", one) for one in headers["webhook-signature"].split(" "))


@pytest.mark.django_db
def test_what_was_used_is_told_once_and_signed(cast: Cast, receiver: Receiver) -> None:
    endpoint = endpoint_of(cast, receiver.url)
    endpoint_of(cast, receiver.url, "invoices")
    used(held(cast.organisation))
    used(held(cast.stranger_organisation))
    outbox_deliver(now=NOW)
    assert send_due(now=NOW) == 1
    assert send_due(now=NOW + LONG) == 0
    ((headers, body),) = receiver.seen
    assert is_signed(endpoint.secret, headers, body)
    assert not is_signed(endpoint.secret, headers, body + b" ")
    assert headers["webhook-timestamp"] == str(int(NOW.timestamp()))
    message = json.loads(body)
    assert (message["type"], message["data"]["sequence"]) == ("ledger.usage", 2)
    delivery = WebhookDelivery.objects.get()
    assert delivery.delivered_at == NOW
    assert len(delivery.tries.get().answer) <= 500


@pytest.mark.django_db
@pytest.mark.parametrize("status", [500, 429, 302])
def test_what_fails_is_sent_again_with_the_same_id_and_bytes(cast: Cast, receiver: Receiver, status: int) -> None:
    endpoint, receiver.status = endpoint_of(cast, receiver.url), status
    services.test_message(endpoint=endpoint, now=NOW)
    send_due(now=NOW)
    assert send_due(now=NOW + timedelta(seconds=4)) == 0
    receiver.status = 204
    send_due(now=NOW + timedelta(seconds=5))
    (first, body), (second, again) = receiver.seen
    assert (first["webhook-id"], body) == (second["webhook-id"], again)
    assert first["webhook-timestamp"] != second["webhook-timestamp"]
    delivery = WebhookDelivery.objects.get()
    assert [one.status for one in delivery.tries.all()] == [status, 204]
    services.replay(delivery=delivery, now=NOW)
    send_due(now=NOW)
    assert receiver.seen[2][0]["webhook-id"] == first["webhook-id"]


@pytest.mark.django_db(transaction=True)
def test_after_three_days_of_silence_it_is_switched_off_and_said(cast: Cast, receiver: Receiver) -> None:
    endpoint, receiver.status = endpoint_of(cast, receiver.url), 503
    services.test_message(endpoint=endpoint, now=NOW)
    clock = NOW
    while WebhookEndpoint.objects.get().is_active:
        send_due(now=clock)
        clock += LONG
        assert clock < NOW + timedelta(days=4)
    outbox_deliver(now=clock)
    (said,) = mail.outbox
    assert sorted(said.to) == [cast.billing.email, cast.owner.email]
    assert endpoint.url in said.body
    before = len(receiver.seen)
    send_due(now=clock)
    assert len(receiver.seen) == before
    receiver.status = 200
    endpoint.refresh_from_db()
    services.endpoint_switch(endpoint=endpoint, active=True, actor=cast.owner, now=clock)
    send_due(now=clock)
    assert WebhookDelivery.objects.get().delivered_at == clock


@pytest.mark.django_db
def test_word_that_is_not_for_customers_stays_here(cast: Cast, receiver: Receiver) -> None:
    endpoint_of(cast, receiver.url, *services.TOPICS)
    with transaction.atomic():
        outbox_write(organisation_id=cast.organisation.id, topic="stripe.push", payload={}, now=NOW)
    outbox_deliver(now=NOW)
    assert not WebhookDelivery.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "https://user@example.com/",
        "https://example.com:8443/",
        "ftp://example.com/",
        "https://",
        "https://exa mple.com/",
        "https://[::1",
        "x",
    ],
)
def test_an_address_that_would_never_be_called_is_refused(cast: Cast, url: str) -> None:
    with pytest.raises(Problem):
        endpoint_of(cast, url)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "10.1.2.3",
        "192.168.0.1",
        "169.254.169.254",
        "0.0.0.0",  # noqa: S104 - it is refused
        "::1",
        "::ffff:10.0.0.1",
        "224.0.0.1",
        "2130706433",
        "0x7f.1",
        "fe80::1",
        "100.64.0.1",
    ],
)
def test_no_message_goes_to_a_private_address(host: str) -> None:
    with pytest.raises(Refused, match="not a public address"):
        address_of(host, 443)
    if ":" not in host:
        assert "not a public address" in post(f"https://{host}/", body=b"", headers={}).error


def test_a_failure_is_a_sentence_without_names_of_classes(settings: SettingsWrapper) -> None:
    settings.WEBHOOK_PRIVATE_ADDRESSES = True
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    assert post(f"http://127.0.0.1:{port}/", body=b"", headers={}).error == "The receiver refused the connection."
    unknown = post("https://no-such-host.invalid/", body=b"", headers={}).error
    assert unknown.startswith("The host name no-such-host.invalid ")
    assert "Errno" not in unknown


@pytest.mark.django_db
def test_the_secret_is_shown_once_and_a_test_is_sent_from_the_page(
    cast: Cast, receiver: Receiver, as_user: Callable[[User], Client]
) -> None:
    client = as_user(cast.billing)
    page = client.post("/portal/webhooks", {"url": receiver.url, "topics": ["usage", "invoices"]}).content.decode()
    endpoint = WebhookEndpoint.objects.get()
    assert endpoint.secret in unescape(page)
    assert endpoint.secret not in unescape(client.get("/portal/webhooks").content.decode())
    address = f"/portal/webhooks/{endpoint.pk}"
    assert endpoint.secret not in unescape(client.get(address).content.decode())
    client.post(address, {"action": "test"})
    send_due(now=timezone.now())
    assert "delivered" in client.get(address).content.decode()
    client.post(address, {"action": "replay", "delivery": WebhookDelivery.objects.get().pk})
    send_due(now=timezone.now())
    assert len({headers["webhook-id"] for headers, _ in receiver.seen}) == 1
    assert len(receiver.seen) == 2
    for action, is_active in (("off", False), ("on", True)):
        client.post(address, {"action": action})
        endpoint.refresh_from_db()
        assert endpoint.is_active is is_active
    client.post(address, {"action": "delete"})
    assert client.get(address).status_code == 404
    refused = client.post("/portal/webhooks", {"url": "ftp://example.com", "topics": ["usage"]}).content.decode()
    assert "must start with https://" in refused


@pytest.mark.django_db
def test_the_way_over_the_api(cast: Cast, receiver: Receiver, as_token: Callable[..., Client]) -> None:
    client = as_token(cast.owner, cast.organisation, Scope.BILLING)
    new = {"url": receiver.url, "topics": ["usage"]}
    key = {"Idempotency-Key": "one"}
    made = [client.post("/api/v1/webhooks", new, content_type="application/json", headers=key) for _ in range(2)]
    assert [answer.status_code for answer in made] == [201, 201]
    assert made[0].json() == made[1].json()
    endpoint = made[0].json()
    assert "secret" not in client.get("/api/v1/webhooks").json()["results"][0]
    sent = client.post(f"/api/v1/webhooks/{endpoint['id']}/test", {}, content_type="application/json")
    send_due(now=timezone.now())
    ((headers, body),) = receiver.seen
    assert is_signed(endpoint["secret"], headers, body)
    (log,) = client.get(f"/api/v1/webhooks/{endpoint['id']}/deliveries").json()["results"]
    assert (log["id"], log["tries"][0]["status"]) == (sent.json()["id"], 200)
    client.post(f"/api/v1/webhook-deliveries/{log['id']}/replay", {}, content_type="application/json")
    assert send_due(now=timezone.now()) == 1
    assert client.delete(f"/api/v1/webhooks/{endpoint['id']}").status_code == 204
    assert client.get("/api/v1/webhooks").json()["results"] == []
