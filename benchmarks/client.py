"""A customer's program against a running server: JSON over HTTP with a token, standard library only."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "var" / "demo.json"
PATIENCE = 600.0  # seconds; a busy machine compiles slowly


class Refused(Exception):
    """The server answered with a problem."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        super().__init__(f"{status} {problem.get('title')}: {problem.get('detail')}")
        self.status, self.problem = status, problem


class Client:
    """One address and one token. Every method raises Refused for what is not a success."""

    def __init__(self, url: str, token: str) -> None:
        self.url, self.token = url.rstrip("/"), token

    def get(self, path: str) -> Any:
        """A document."""
        return json.loads(self.send("GET", path))

    def rows(self, path: str) -> list[dict[str, Any]]:
        """All pages of a list."""
        found: list[dict[str, Any]] = []
        page = self.get(path)
        while True:
            found += page["results"]
            if not page["next"]:
                return found
            page = self.get(page["next"].removeprefix(self.url))

    def post(self, path: str, document: dict[str, Any]) -> Any:
        """Create something, at most once however often the message travels."""
        headers = {"Content-Type": "application/json", "Idempotency-Key": uuid4().hex}
        return json.loads(self.send("POST", path, json.dumps(document).encode(), headers))

    def form(self, path: str, fields: dict[str, str], file: tuple[str, bytes]) -> Any:
        """Fields and one file, as a browser's form sends them."""
        mark, (name, data) = uuid4().hex, file
        parts = [_part(mark, f'name="{key}"', value.encode()) for key, value in fields.items()]
        parts.append(_part(mark, f'name="{name}"; filename="{name}.npz"', data))
        body = b"".join(parts) + f"--{mark}--\r\n".encode()
        headers = {"Content-Type": f"multipart/form-data; boundary={mark}", "Idempotency-Key": uuid4().hex}
        return json.loads(self.send("POST", path, body, headers))

    def send(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> bytes:
        """One request; answers the bytes of the body."""
        known = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        request = urllib.request.Request(self.url + path, data=body, method=method, headers=known)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=120) as response:  # noqa: S310 - the address is the user's own
                return bytes(response.read())
        except urllib.error.HTTPError as error:
            raise Refused(error.code, _problem(error.read())) from None


def demo_client(path: Path = DEMO) -> Client:
    """The demo's owner at the server that `make run` has started. SystemExit with a sentence when there is none."""
    try:
        demo = json.loads(path.read_text())
        client = Client(demo["url"], demo["token"])
        client.get("/api/v1/me")
    except (OSError, ValueError, KeyError) as error:
        raise SystemExit(f"No server answers as {path} says ({error}); start one with `make run`.") from error
    except Refused as error:
        raise SystemExit(
            f"The server of {path} refuses its token ({error}); start it again with `make run`."
        ) from error
    return client


def wait_for(what: str, found: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """What `found` answers, as soon as it is true. Raises TimeoutError."""
    deadline, pause = time.monotonic() + seconds, 0.2
    while True:
        answer = found()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: nothing after {seconds:.0f} s")
        time.sleep(pause)
        pause = min(pause * 1.5, 3.0)


def _part(mark: str, disposition: str, data: bytes) -> bytes:
    return f"--{mark}\r\nContent-Disposition: form-data; {disposition}\r\n\r\n".encode() + data + b"\r\n"


def _problem(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {"title": "Not JSON", "detail": body[:200].decode(errors="replace")}
    return found if isinstance(found, dict) else {"title": "Not a problem", "detail": str(found)[:200]}
