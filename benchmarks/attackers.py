"""Those who attack in `benchmarks.attack`, each from a loopback address of its own; a step is one request."""

from __future__ import annotations

import io
import itertools
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from typing import Any, TypeVar
from uuid import uuid4

import httpx
import numpy as np
import onnx
from onnx import TensorProto, helper

NODES = 50_000
SLOW_MAX = 200
HANGING = 4
ALLOWED = 60
TIMEOUT = 30.0
PATIENCE = 90.0
A = TypeVar("A")


class Browser:
    """A client with cookies that fills in forms; every request's status is counted."""

    def __init__(self, url: str, address: str) -> None:
        self.client = httpx.Client(
            base_url=url, timeout=TIMEOUT, transport=httpx.HTTPTransport(local_address=address, retries=0)
        )
        self.statuses: Counter[int] = Counter()
        self.lock = threading.Lock()

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """One request, with the session's CSRF token; 0 is counted where no answer came."""
        headers = {"X-CSRFToken": self.client.cookies.get("csrftoken") or "", "Referer": str(self.client.base_url)}
        try:
            answer = self.client.request(method, path, headers={**headers, **more.pop("headers", {})}, **more)
        except httpx.HTTPError:
            self.count(0)
            raise
        self.count(answer.status_code)
        return answer

    def count(self, status: int) -> None:
        """One more answer of this status."""
        with self.lock:
            self.statuses[status] += 1

    def form(self, path: str, **fields: str) -> httpx.Response:
        """Open a page and send its form; the answer to the POST."""
        page = self.ask("GET", path)
        hidden = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
        return self.ask("POST", path, data={**fields, "csrfmiddlewaretoken": hidden.group(1) if hidden else ""})

    def sign_in(self, email: str, password: str) -> bool:
        """Whether it led to a session."""
        self.form("/sign-in", username=email, login=email, password=password)
        return "sessionid" in self.client.cookies


def until(found: Callable[[], A | None]) -> A:
    """What `found` gives as soon as it gives something. Raises SystemExit when it does not within a minute and a half."""
    deadline = time.monotonic() + PATIENCE
    while not (answer := found()):
        if time.monotonic() > deadline:
            raise SystemExit("An attacker could not prepare: the product did not get ready for it in time.")
        time.sleep(0.5)
    return answer


def chain() -> bytes:
    """An ONNX file of 50,000 nodes, one after another."""
    nodes = [helper.make_node("Relu", [f"t{n}"], [f"t{n + 1}"]) for n in range(NODES)]
    ends = [helper.make_tensor_value_info(f"t{n}", TensorProto.FLOAT, [1, 8]) for n in (0, NODES)]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def renamed(model: bytes) -> bytes:
    """The same model in other bytes: a description (field 6 of ModelProto, of 32 characters) is added at the end."""
    return model + b"\x32\x20" + uuid4().hex.encode()


class Attacker:
    """One kind of attack. `step` makes about one request; `verdict` says what was wrong afterwards."""

    name = ""

    def __init__(self, url: str, address: str, demo: dict[str, Any]) -> None:
        self.url, self.address, self.demo = url, address, demo
        self.browser = Browser(url, address)
        self.turn = itertools.count()

    def prepare(self) -> None:
        """What is done before the clock runs."""

    def step(self) -> None:
        """One request or two."""
        raise NotImplementedError

    def close(self) -> None:
        """Leave nothing open."""
        self.browser.client.close()

    def verdict(self) -> list[str]:
        """What the server should not have done."""
        bad = sum(count for status, count in self.browser.statuses.items() if status >= 500 and status != 503)
        return [f"{self.name}: {bad} answers of 500"] if bad else []

    def must_refuse(self) -> list[str]:
        """The limits held: some requests were answered by 429."""
        return [] if self.browser.statuses[429] else [f"{self.name}: no request was refused with 429"]


class Squatter(Attacker):
    """A newcomer with a confirmed address and no card buys as much of a pool as is sold, and signs up again and again."""

    name = "squatting"
    target = "lpu"

    def prepare(self) -> None:
        """Sign up, follow the mailed link, and compile a small model: what any newcomer can do."""
        self.sold: list[Decimal] = []
        self.unconfirmed = 0
        rules = httpx.get(f"{self.url}/api/v1/buying-rules", headers=self._admin(), timeout=TIMEOUT).raise_for_status()
        self.limit = Decimal(rules.json()["newcomer_credit"] or "Infinity")
        self.address_of = f"{uuid4().hex[:12]}@squat.example"
        self._sign_up(self.browser, self.address_of)
        self._confirm()
        version = self._upload(tiny(int(time.time()) % 2**22, rows=4096))
        made = self.browser.ask("POST", "/api/v1/compiles", json={"version_id": version, "target": self.target})
        done = until(lambda: self._ended(f"/api/v1/compiles/{made.json()['id']}"))
        self.program = done["program_ids"][0]

    def _admin(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.demo['admin_token']}"}

    @staticmethod
    def _sign_up(browser: Browser, email: str) -> None:
        browser.form("/sign-up", name="Squatter", email=email, password1=uuid4().hex, organisation_name=email[:12])

    def _confirm(self) -> None:
        """The link of the mail, from the page on which a local product shows its mails."""

        def link() -> str | None:
            page = self.browser.ask("GET", "/mail").text
            found = re.search(rf"{re.escape(self.address_of)}.*?href=\"https?://[^/]+(/[^\"]+)\"", page, re.DOTALL)
            return found.group(1) if found else None

        path = until(link)
        if "sessionid" not in self.browser.client.cookies or self.browser.ask("GET", path).status_code == 200:
            self.browser.form(path)

    def _upload(self, data: bytes) -> str:
        upload = self.browser.ask("POST", "/api/v1/uploads", json={"filename": "tiny.onnx", "size": len(data)}).json()
        path = f"/api/v1/uploads/{upload['id']}"
        self.browser.ask("PUT", f"{path}/chunks/0", content=data)
        self.browser.ask("POST", f"{path}/complete", json={})
        return str(until(lambda: self.browser.ask("GET", path).json()["version_id"]))

    def _ended(self, path: str) -> dict[str, Any] | None:
        found: dict[str, Any] = self.browser.ask("GET", path).json()
        return found if found["state"] in {"done", "failed", "cancelled"} else None

    def step(self) -> None:
        number = next(self.turn)
        if number % 4 == 0:
            self._unconfirmed()
            return
        body = {
            "lines": [{"program": self.program, "executions": 10 ** (4 + number % 8)}],
            "klass": "standard",
            "pool": next(one for one in self.demo["pools"] if one.startswith(self.target)),
        }
        quote = self.browser.ask("POST", "/api/v1/quotes", json=body)
        if quote.status_code == 201:
            accepted = self.browser.ask("POST", f"/api/v1/quotes/{quote.json()['id']}/accept", json={})
            if accepted.status_code < 300:
                self.sold.append(Decimal(quote.json()["net"]))

    def _unconfirmed(self) -> None:
        """Another account, which nobody confirms, tries to buy."""
        other = Browser(self.url, self.address)
        other.statuses, other.lock = self.browser.statuses, self.browser.lock
        self._sign_up(other, f"{uuid4().hex[:12]}@squat.example")
        body = {"quota": {"precision": "float32", "tera_operations": 1}, "pool": self.demo["pools"][0]}
        quote = other.ask("POST", "/api/v1/quotes", json=body)
        if quote.status_code == 201:
            accepted = other.ask("POST", f"/api/v1/quotes/{quote.json()['id']}/accept", json={})
            self.unconfirmed += accepted.status_code < 300
        other.client.close()

    def verdict(self) -> list[str]:
        found, total = super().verdict(), sum(self.sold, Decimal(0))
        print(f"  squatting: a newcomer bought {len(self.sold)} contracts for {total} of {self.limit}")
        if self.unconfirmed:
            found.append(f"squatting: {self.unconfirmed} contracts were sold to addresses that nobody confirmed")
        if total > self.limit:
            found.append(f"squatting: a newcomer committed {total}, and {self.limit} is the limit")
        if not self.browser.statuses[409]:
            found.append("squatting: the credit limit was never reached")
        return found


class Sprayer(Attacker):
    """Wrong passwords for many addresses, every fifth for the honest user's, to break in or to lock people out."""

    name = "spraying"  # the server lets an address try 50 wrong passwords in a quarter of an hour

    def step(self) -> None:
        number = next(self.turn)
        email = self.demo["email"] if number % 5 == 0 else f"user{number % 97}@example.com"
        self.browser.client.cookies.clear()
        if self.browser.sign_in(email, f"guess-{number}"):
            self.browser.count(999)

    def verdict(self) -> list[str]:
        refused, answered = self.browser.statuses[429] + self.browser.statuses[403], self.browser.statuses.total()
        is_wrong = not refused and answered > 2 * ALLOWED  # a page and its form for each try
        broken_in = ["spraying: somebody got in"] if self.browser.statuses[999] else []
        return super().verdict() + broken_in + (["spraying: nothing was refused"] if is_wrong else [])


class Insider(Attacker):
    """A person with an account and, unless said otherwise, another organisation than the honest user's: the demo's engineer."""

    is_alone = True

    def prepare(self) -> None:
        if not self.browser.sign_in(self.demo["engineer_email"], self.demo["password"]):
            raise SystemExit(f"{self.demo['engineer_email']} cannot sign in with the password of the demo.")
        if self.is_alone:
            self.browser.form("/organisations/new", name=f"{self.name} {uuid4().hex[:8]}")

    def _rows(self, path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.browser.ask("GET", f"/api/v1/{path}").json()["results"]
        return found


class Uploader(Insider):
    """Files of 50,000 nodes, as many as the server takes."""

    name = "upload flood"
    open = 0

    def prepare(self) -> None:
        super().prepare()
        self.file = chain()
        self.waiting: list[tuple[str, bytes]] = []

    def step(self) -> None:
        with self.browser.lock:
            begun = self.waiting.pop() if self.waiting else None
        if begun is not None:
            self.browser.ask("PUT", f"/api/v1/uploads/{begun[0]}/chunks/0", content=begun[1])
            self.browser.ask("POST", f"/api/v1/uploads/{begun[0]}/complete", json={})
            return
        data = renamed(self.file)
        announced = self.browser.ask("POST", "/api/v1/uploads", json={"filename": "chain.onnx", "size": len(data)})
        if announced.status_code == 201:
            with self.browser.lock:
                self.waiting.append((announced.json()["id"], data))

    def verdict(self) -> list[str]:
        return super().verdict() + self.must_refuse()


class Allocator(Insider):
    """Small requests that ask for much memory."""

    name = "allocation"
    is_alone = False

    def prepare(self) -> None:
        """Buys a small contract within the demo's organisation: only counts and sizes stand in the way of what is asked."""
        super().prepare()
        programs = [
            one for one in self._rows("programs") if one["target"] == "lpu" and all(one["dims"].values() or [1])
        ]
        pool = next(one["slug"] for one in self.browser.ask("GET", "/api/v1/pools").json() if one["target"] == "lpu")
        body = {"lines": [{"program": programs[0]["id"], "executions": 1000}], "klass": "standard", "pool": pool}
        quote = self.browser.ask("POST", "/api/v1/quotes", json=body).raise_for_status().json()
        made = self.browser.ask("POST", f"/api/v1/quotes/{quote['id']}/accept", json={}).raise_for_status()
        self.contract, self.program = made.json()["id"], programs[0]["id"]
        file = io.BytesIO()
        np.savez_compressed(file, x=np.zeros((1, 64_000_000), dtype=np.float32))
        self.bomb = file.getvalue()

    def step(self) -> None:
        kinds = (self._preview, self._page, self._nested, self._bomb, self._items)
        kinds[next(self.turn) % len(kinds)]()

    def _preview(self) -> None:
        body = {"quota": {"precision": "float32", "tera_operations": 10**17}, "pool": self.demo["pools"][0]}
        self.browser.ask("POST", "/api/v1/quotes/preview", json=body)

    def _page(self) -> None:
        self.browser.ask("GET", "/api/v1/versions?page_size=1000000000")

    def _nested(self) -> None:
        body = b'{"lines": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
        self.browser.ask("POST", "/api/v1/quotes", content=body, headers={"Content-Type": "application/json"})

    def _bomb(self) -> None:
        files = {"inputs": ("inputs.npz", self.bomb, "application/zip")}
        self.browser.ask(
            "POST", "/api/v1/jobs/npz", data={"contract": self.contract, "program": self.program}, files=files
        )

    def _items(self) -> None:
        self.browser.form("/jobs/new", contract=self.contract, sample_items="99999")


class Slow(Attacker):
    """Bodies and heads that arrive a byte at a time."""

    name = "slow bodies"

    def __init__(self, url: str, address: str, demo: dict[str, Any]) -> None:
        super().__init__(url, address, demo)
        self.made: list[socket.socket] = []
        host, port = self.url.removeprefix("http://").rsplit(":", 1)
        self.place = (host, int(port))
        self.most = 0

    def step(self) -> None:
        number = next(self.turn)
        for one in list(self.made):
            try:
                one.send(b"a")
            except OSError:
                with suppress(ValueError):
                    self.made.remove(one)
                one.close()
        if len(self.made) >= SLOW_MAX:
            return
        head = "POST /sign-in HTTP/1.1\r\nHost: {}:{}\r\n".format(*self.place)
        text = head + ("X-Slow: " if number % 2 else "Content-Length: 100000\r\n\r\n")
        with suppress(OSError):
            one = socket.create_connection(self.place, timeout=5, source_address=(self.address, 0))
            one.sendall(text.encode())
            one.setblocking(False)  # noqa: FBT003 - the socket's own words
            self.made.append(one)
            self.browser.count(1)
        self.most = max(self.most, len(self.made))

    def close(self) -> None:
        super().close()
        for one in self.made:
            one.close()


class Hanger(Insider):
    """Webhooks to receivers that accept and never answer."""

    name = "hanging webhooks"

    def __init__(self, url: str, address: str, demo: dict[str, Any]) -> None:
        super().__init__(url, address, demo)
        self.servers: list[socket.socket] = []
        self.endpoints: list[str] = []

    def prepare(self) -> None:
        super().prepare()
        self.servers += [socket.create_server((self.address, 0), backlog=64) for _ in range(HANGING)]
        for server in self.servers:
            body = {"url": f"http://{self.address}:{server.getsockname()[1]}/", "topics": ["usage"]}
            made = self.browser.ask("POST", "/api/v1/webhooks", json=body)
            if made.status_code == 201:
                self.endpoints.append(made.json()["id"])

    def step(self) -> None:
        if self.endpoints:
            one = self.endpoints[next(self.turn) % len(self.endpoints)]
            self.browser.ask("POST", f"/api/v1/webhooks/{one}/test", json={})

    def close(self) -> None:
        super().close()
        for server in self.servers:
            server.close()

    def verdict(self) -> list[str]:
        return super().verdict() + ([] if self.endpoints else ["hanging webhooks: no endpoint could be added"])


def tiny(number: int, rows: int = 8) -> bytes:
    """A model of one product, with other weights for each number; `rows` x 4 of them."""
    weight = onnx.numpy_helper.from_array(np.full((rows, 4), number, dtype=np.float32), "w")
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, rows]), ("y", [1, 4]))]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "tiny", ends[:1], ends[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


KINDS: tuple[type[Attacker], ...] = (Squatter, Sprayer, Uploader, Allocator, Slow, Hanger)
