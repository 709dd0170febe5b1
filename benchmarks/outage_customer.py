"""A customer's program that does not give up: it repeats what was not answered, with the same key, and remembers all."""

from __future__ import annotations

import hashlib
import io
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx
import numpy as np
import onnx

from benchmarks.client import ROOT

PATIENCE = 150.0  # until one request is answered, and one job done
PAUSE = 0.3
ITEMS = 4
FINAL = {"done", "failed", "cancelled"}


class Untrue(Exception):
    """An answer that should not have come."""


@dataclass
class Done:
    """One piece of work that succeeded: when it began and ended (monotonic seconds), and how often it was repeated."""

    began: float
    ended: float
    repeated: int


@dataclass
class Customer:
    """One organisation's program. `kept` are the ids that were accepted, by what they are."""

    url: str
    token: str
    kept: dict[str, list[str]] = field(default_factory=dict)
    untrue: list[str] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    repeated: threading.local = field(default_factory=threading.local)

    def ask(self, method: str, path: str, **sent: Any) -> httpx.Response:
        """One request, repeated until it is answered for good. Raises Untrue for an answer that is neither 2xx nor an
        honest refusal, or when none comes."""
        headers = {"Authorization": f"Bearer {self.token}", "Idempotency-Key": uuid4().hex, **sent.pop("headers", {})}
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                answer = httpx.request(method, self.url + path, headers=headers, timeout=60.0, **sent)
            except httpx.TransportError:
                self._count("no answer")  # web is being started again
            else:
                if answer.status_code not in {503, 429}:
                    return self._judged(method, path, answer)
                self._judge_refusal(method, path, answer)
            self.repeated.count = getattr(self.repeated, "count", 0) + 1
            time.sleep(PAUSE)
        raise Untrue(f"{method} {path}: no answer within {PATIENCE:.0f} s")

    def _judged(self, method: str, path: str, answer: httpx.Response) -> httpx.Response:
        if answer.status_code >= 500:
            self.untrue.append(f"{method} {path}: {answer.status_code} {answer.text[:200]}")
            raise Untrue(self.untrue[-1])
        return answer

    def _judge_refusal(self, method: str, path: str, answer: httpx.Response) -> None:
        """503 says when to try again, and that a part is away."""
        self._count(str(answer.status_code))
        is_problem = answer.headers.get("Content-Type", "") == "application/problem+json"
        if "Retry-After" not in answer.headers or not is_problem or not answer.json().get("detail"):
            self.untrue.append(
                f"{method} {path}: {answer.status_code} without Retry-After or reason: {answer.text[:200]}"
            )

    def _count(self, what: str) -> None:
        self.refused[what] = self.refused.get(what, 0) + 1

    def made(self, kind: str, answer: httpx.Response) -> dict[str, Any]:
        """What a request that creates has made; raises Untrue when it was refused."""
        if answer.status_code >= 400:
            raise Untrue(f"{answer.request.method} {answer.request.url.path}: {answer.status_code} {answer.text[:300]}")
        found: dict[str, Any] = answer.json()
        self.kept.setdefault(kind, []).append(found["id"])
        return found

    def get(self, path: str) -> Any:
        """A document."""
        answer = self.ask("GET", path)
        if answer.status_code >= 400:
            raise Untrue(f"GET {path}: {answer.status_code} {answer.text[:200]}")
        return answer.json()

    def rows(self, path: str) -> list[dict[str, Any]]:
        """All pages of a list."""
        found: list[dict[str, Any]] = []
        page = self.get(path)
        while isinstance(page, dict):
            found += page["results"]
            if not page["next"]:
                return found
            page = self.get(page["next"].removeprefix(self.url))
        return list(page)

    def finished(self, kind: str, path: str) -> dict[str, Any]:
        """Waits for the end of a job or a compile; raises Untrue when it did not succeed."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            found: dict[str, Any] = self.get(path)
            if found["state"] == "done":
                return found
            if found["state"] in FINAL:
                reason = found.get("problem") or found.get("error")
                self.untrue.append(f"{kind} {found['id']} {found['state']}: {reason}")
                raise Untrue(self.untrue[-1])
            time.sleep(PAUSE)
        raise Untrue(f"{kind} {path} is {found['state']} after {PATIENCE:.0f} s")


# What a customer does, each with what it needs


@dataclass
class Activities:
    """The five things that go on while a fault strikes."""

    customer: Customer
    version: str = ""
    program: dict[str, Any] = field(default_factory=dict)
    pool: str = ""
    contract: str = ""
    number: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def prepare(self) -> None:
        """A model, its program, and a contract to run jobs under."""
        ask = self.customer.ask
        version = self.customer.made("version", ask("POST", "/api/v1/samples", json={"slug": "digits-batch"}))
        self.version = str(version["id"])
        compiled = self._compile(8)
        self.program = self.customer.get(f"/api/v1/programs/{compiled['program_ids'][0]}")
        pools = self.customer.rows("/api/v1/pools")
        self.pool = next(str(one["slug"]) for one in pools if one["target"] == "lpu")
        self.contract = self._accept(3_000)

    def all(self) -> dict[str, Callable[[], None]]:
        """By name."""
        return {
            "uploading": self.upload,
            "compiling": self.compile,
            "accepting": self.accept,
            "running": self.run,
            "invoicing": self.invoice,
        }

    def upload(self) -> None:
        """A model that nobody had before, in pieces."""
        data = self._model()
        digest, customer = hashlib.sha256(data).hexdigest(), self.customer
        announced = {"filename": "net.onnx", "size": len(data), "sha256": digest, "name": f"net {digest[:8]}"}
        upload = customer.ask("POST", "/api/v1/uploads", json=announced).json()
        step = -(-len(data) // 4)
        for offset in range(0, len(data), step):
            path = f"/api/v1/uploads/{upload['id']}/chunks/{offset}"
            answer = customer.ask("PUT", path, content=data[offset : offset + step])
            if answer.status_code >= 400:
                raise Untrue(f"PUT {path}: {answer.status_code} {answer.text[:200]}")
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            answer = customer.ask("POST", f"/api/v1/uploads/{upload['id']}/complete", json={"sha256": digest})
            if answer.status_code in {200, 201} and "sha256" in answer.json():
                customer.made("version", answer)
                return
            if answer.status_code != 202:
                raise Untrue(f"complete: {answer.status_code} {answer.text[:200]}")
            time.sleep(PAUSE)  # it waits for its check
        raise Untrue(f"upload {upload['id']} is not complete after {PATIENCE:.0f} s")

    def _model(self) -> bytes:
        with self.lock:
            self.number += 1
        model = onnx.load_from_string((ROOT / "samples" / "digits-small.onnx").read_bytes())
        model.doc_string = f"{uuid4().hex} {self.number}"
        return bytes(model.SerializeToString(deterministic=True))

    def compile(self) -> None:
        """A size that was not compiled before."""
        with self.lock:
            self.number += 1
        self._compile(8 + self.number)

    def _compile(self, batch: int) -> dict[str, Any]:
        body = {"version_id": self.version, "target": "lpu", "dims": {"batch": batch}}
        job = self.customer.made("compile", self.customer.ask("POST", "/api/v1/compiles", json=body))
        return self.customer.finished("compile", f"/api/v1/compiles/{job['id']}")

    def accept(self) -> None:
        """A quote, and its contract."""
        self._accept(2)

    def _accept(self, executions: int) -> str:
        lines = [{"program": self.program["id"], "executions": executions}]
        body = {"pool": self.pool, "window": {}, "lines": lines}
        quote = self.customer.made("quote", self.customer.ask("POST", "/api/v1/quotes", json=body))
        path = f"/api/v1/quotes/{quote['id']}/accept"
        contract = self.customer.made("contract", self.customer.ask("POST", path, json={}))
        if contract["net"] != quote["net"]:
            raise Untrue(f"quote {quote['id']} says {quote['net']}, its contract {contract['net']}")
        return str(contract["id"])

    def run(self) -> None:
        """A job, until it is done."""
        shape = self.program["inputs"][0]["shape"]
        buffer = io.BytesIO()
        np.savez(buffer, **{self.program["inputs"][0]["name"]: np.ones((ITEMS, *shape), "float32")})
        files = {"inputs": ("inputs.npz", buffer.getvalue())}
        answer = self.customer.ask("POST", "/api/v1/jobs/npz", data={"contract": self.contract}, files=files)
        job = self.customer.made("job", answer)
        self.customer.finished("job", f"/api/v1/jobs/{job['id']}")

    def invoice(self) -> None:
        """An invoice over what was used since the last one; with nothing used, that is what is said."""
        answer = self.customer.ask("POST", "/api/v1/invoices", json={})
        if answer.status_code == 409 and answer.json()["code"] == "nothing-to-invoice":
            time.sleep(PAUSE)
            return
        self.customer.made("invoice", answer)
