"""The client's transport against a real server that fails at first: what is sent again, and what never is."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from takt import Client, Quote, Refused, Unreachable


@dataclass
class Server:
    """Answers with `script`, one status after another, the last for ever; 0 drops the connection."""

    url: str = ""
    script: list[int] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"{}"
    seen: list[dict[str, str]] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            state.seen.append({"method": self.command, "path": self.path, **dict(self.headers)})
            status = state.script.pop(0) if len(state.script) > 1 else state.script[0]
            if status == 0:
                self.close_connection = True
                return
            self.send_response(status)
            for name, value in {**state.headers, "Content-Length": str(len(state.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(state.body)

        do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - the names that http.server calls

        def log_message(self, *_: object) -> None:
            """Nothing on the terminal."""

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{running.server_port}"
    yield state
    running.shutdown()
    running.server_close()


def client_of(server: Server, seconds: float = 5.0) -> Client:
    return Client(server.url, "takt_secret", timeout=5, retry_seconds=seconds)


@pytest.mark.parametrize("trouble", [503, 429, 502, 0])
def test_what_creates_is_sent_again_with_the_same_key(server: Server, trouble: int) -> None:
    server.script = [trouble, 201]
    client_of(server).post("/quotes", {})
    keys = {one["Idempotency-Key"] for one in server.seen}
    assert (len(server.seen), len(keys)) == (2, 1)


def test_two_calls_have_two_keys(server: Server) -> None:
    server.script = [201]
    client = client_of(server)
    client.post("/quotes", {})
    client.post("/quotes", {})
    assert len({one["Idempotency-Key"] for one in server.seen}) == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 500])
def test_a_refusal_is_raised_at_once_with_its_code(server: Server, status: int) -> None:
    server.script, server.headers = [status], {"X-Request-ID": "abc"}
    server.body = json.dumps({"code": "capacity-taken", "detail": "Full.", "errors": [{"message": "x"}]}).encode()
    with pytest.raises(Refused) as refused:
        client_of(server).post("/quotes", {})
    assert len(server.seen) == 1
    assert (refused.value.status, refused.value.code, refused.value.request_id) == (status, "capacity-taken", "abc")
    assert refused.value.errors == [{"message": "x"}]


def test_retries_end_and_say_what_the_server_said(server: Server) -> None:
    server.script, server.body = [503], b"<html>proxy</html>"
    with pytest.raises(Refused) as refused:
        client_of(server, seconds=0.5).get("/me")
    assert len(server.seen) >= 2
    assert refused.value.status == 503


def test_a_longer_retry_after_than_there_is_time_ends_at_once(server: Server) -> None:
    server.script, server.headers = [429], {"Retry-After": "60"}
    with pytest.raises(Refused) as refused:
        client_of(server).get("/me")
    assert (len(server.seen), refused.value.retry_after) == (1, 60.0)


def test_no_server_is_unreachable() -> None:
    with pytest.raises(Unreachable, match="No answer"):
        Client("http://127.0.0.1:9", "takt_secret", retry_seconds=0).get("/me")


def test_the_token_goes_to_no_other_server(server: Server) -> None:
    server.script = [200]
    server.body = json.dumps({"results": [], "next": "http://elsewhere.example/api/v1/x"}).encode()
    with pytest.raises(ValueError, match="elsewhere"):
        list(client_of(server).rows("/quotes"))
    for near in (f"{server.url}.evil.example/api/v1/me", server.url.replace("127", "128")):
        with pytest.raises(ValueError, match="not an address"):
            client_of(server).get(near)
    assert all(one["Authorization"] == "Bearer takt_secret" for one in server.seen)


def test_a_redirect_is_not_followed_with_the_token(server: Server) -> None:
    server.script, server.headers = [302], {"Location": "http://elsewhere.example/"}
    assert client_of(server).request("GET", "/me").status_code == 302


def test_amounts_are_exact_and_unknown_fields_stay_in_raw() -> None:
    document = {
        "id": "q",
        "state": "open",
        "klass": "standard",
        "pool": "lpu-a",
        "net": "0.1000000000000000000000000000000000001",
        "expected": "1",
        "currency": "EUR",
        "valid_until": "2026-12-01T22:00:00Z",
        "digest": "d",
        "contract": None,
        "later": 1,
    }
    quote = Quote.read(document)
    assert quote.net == Decimal("0.1000000000000000000000000000000000001")
    assert quote.valid_until.utcoffset() is not None
    assert quote.raw["later"] == 1


def test_a_client_without_a_token_says_where_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAKT_TOKEN", raising=False)
    with pytest.raises(ValueError, match="Settings, API tokens"):
        Client("http://127.0.0.1:9")
