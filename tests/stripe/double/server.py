"""The double as a real HTTP server: reads, refuses, remembers keys, plays outages, checks its own answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from tests.stripe.double.answers import faults
from tests.stripe.double.control import controlled
from tests.stripe.double.delivering import Deliverer
from tests.stripe.double.description import Operation, operation_of
from tests.stripe.double.errors import Refused, invalid
from tests.stripe.double.forms import decoded
from tests.stripe.double.hosted import Elsewhere, served
from tests.stripe.double.parameters import read
from tests.stripe.double.routes import ROUTES
from tests.stripe.double.store import Saved, Store, Thing

PAGE = 10


class Answer:
    """A status, a body and whether a key remembered it."""

    def __init__(self, status: int, body: Thing, *, replayed: bool = False) -> None:
        self.status, self.body, self.replayed = status, body, replayed


def answered(store: Store, method: str, target: str, form: str, headers: dict[str, str]) -> Answer | None:
    """The answer to a request; None for one that never comes, whether or not the work was done."""
    parts = urlsplit(target)
    with store.lock:
        fault = store.fault_for(method, parts.path)
        if fault == "timeout":  # it never came
            return None
        try:
            if fault == "429":
                raise Refused(429, "invalid_request_error", "Too many requests", code="rate_limit", is_saved=False)
            answer = _once(store, method, parts.path, parts.query if method != "POST" else form, headers, fault)
        except Refused as refusal:
            return Answer(refusal.status, refusal.body)
        return None if fault == "timeout-after" else answer


def _once(store: Store, method: str, path: str, form: str, headers: dict[str, str], fault: str) -> Answer:
    """Carry a request out, or repeat what its key remembers: also a failure, as Stripe does."""
    if not headers.get("authorization", "").startswith("Bearer sk_test_"):
        raise Refused(401, "invalid_request_error", "Invalid API Key provided", is_saved=False)
    operation = operation_of(method, path)
    if operation is None or (method, operation.path) not in ROUTES:
        raise Refused(404, "invalid_request_error", f"Unrecognized request URL ({method}: {path}).", is_saved=False)
    given = _parameters(operation, method, form)
    key, request = headers.get("idempotency-key", "") if method == "POST" else "", f"{method} {path} {form}"
    known = store.saved(key) if key else None
    if known is not None:
        if known.request != request:
            raise Refused(
                400,
                "idempotency_error",
                "Keys for idempotent requests can only be used with the same parameters they "
                f"were first used with. Try using a key other than '{key}'.",
                is_saved=False,
            )
        return Answer(known.status, known.body, replayed=True)
    answer = _carried_out(store, operation, path, given, fault)
    if key and answer.status != 400:
        store.keys[key] = Saved(request, answer.status, answer.body, store.now())
    return answer


def _parameters(operation: Operation, method: str, form: str) -> Thing:
    try:
        tree = decoded(form)
    except ValueError as error:
        raise invalid(str(error)) from None
    given: Thing = read(operation.body if method == "POST" else operation.query, tree)
    return given


def _carried_out(store: Store, operation: Operation, path: str, given: Thing, fault: str) -> Answer:
    broken = Answer(500, {"error": {"type": "api_error", "message": "An unknown error occurred"}})
    if fault == "500":
        return broken
    match = operation.pattern.fullmatch(path)
    try:
        found = ROUTES[operation.method, operation.path](store, given, match.groupdict() if match else {})
        body = _page(found, given, path) if isinstance(found, list) else found
    except Refused as refusal:
        return Answer(refusal.status, refusal.body)
    body = json.loads(json.dumps(body))
    wrong = faults(operation.answer, body)
    if wrong:
        store.unfit.extend(f"{operation.method} {operation.path}: {one}" for one in wrong)
        return Answer(
            500, {"error": {"type": "api_error", "message": f"The double's answer does not fit: {wrong[:3]}"}}
        )
    return broken if fault == "500-after" else Answer(200, body)


def _page(found: list[Thing], given: Thing, path: str) -> Thing:
    """Newest first, `limit` at a time; `created` narrows, `starting_after` goes on."""
    span = given.get("created", {})
    if isinstance(span, int):
        span = {"gte": span, "lte": span}
    tests = {"gt": int.__gt__, "gte": int.__ge__, "lt": int.__lt__, "lte": int.__le__}
    found = [one for one in found if all(tests[name](one["created"], bound) for name, bound in span.items())]
    after, limit = given.get("starting_after"), given.get("limit", PAGE)
    if not 1 <= limit <= 100:
        raise invalid("This value must be between 1 and 100.", param="limit")
    if after:
        names = [one["id"] for one in found]
        found = found[names.index(after) + 1 :] if after in names else []
    return {"object": "list", "data": found[:limit], "has_more": len(found) > limit, "url": path}


class Serving(str):  # noqa: SLOT000 - it has an attribute
    """The double's address, with what delivers its events (None without an endpoint)."""

    deliverer: Deliverer | None = None

    def delivered(self) -> None:
        """Wait until the endpoint has every event. Raises TimeoutError."""
        if self.deliverer is not None:
            self.deliverer.wait()


class _Handler(BaseHTTPRequestHandler):
    store: Store
    serving: Serving
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body leave as one, or the body waits 40 ms for the head's acknowledgement

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        form = self.rfile.read(length).decode()
        if self.path == "/" or self.path.startswith("/hosted/"):
            self._hosted(form)
            return
        if self.path == "/control" and self.command == "POST":
            body = json.dumps(controlled(self.store, self.serving.deliverer, json.loads(form)))
            self._send(200, "application/json", body)
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = answered(self.store, self.command, self.path, form, headers)
        if answer is None:  # acted, and nobody hears of it
            self.close_connection = True
            return
        replayed = {"Idempotent-Replayed": "true"} if answer.replayed else {}
        self._send(answer.status, "application/json", json.dumps(answer.body), **replayed)

    def _hosted(self, form: str) -> None:
        try:
            with self.store.lock:
                page = served(self.store, self.command, self.path, form)
            self._send(200, "text/html; charset=utf-8", page)
        except Elsewhere as place:
            self._send(303, "text/plain", "", Location=str(place))
        except Refused as refusal:
            self._send(refusal.status, "text/plain", str(refusal))

    def _send(self, status: int, kind: str, text: str, **headers: str) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = _serve  # noqa: N815 - the names that http.server calls

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the base class
        """Quiet."""


@contextmanager
def running(store: Store, *, port: int = 0, webhook: str = "", secret: str = "") -> Iterator[Serving]:
    """Serve until the block ends; gives the address. With `webhook`, events are delivered there, signed by `secret`."""
    handler = type("Handler", (_Handler,), {"store": store})
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    serving = Serving(f"http://127.0.0.1:{server.server_address[1]}")
    store.base = handler.serving = serving
    threads = [threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)]
    threads[0].start()
    if webhook:
        serving.deliverer = Deliverer(store, webhook, secret)
        threads.append(serving.deliverer.start())
    try:
        yield serving
    finally:
        if serving.deliverer is not None:
            serving.deliverer.end()
        server.shutdown()
        server.server_close()
        for thread in threads:
            thread.join()
