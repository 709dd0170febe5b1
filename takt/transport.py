"""HTTP with a token: bounded retries, and one idempotency key for all attempts of what creates something."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from takt.errors import Refused, Unreachable

try:
    import httpx
except ModuleNotFoundError as error:  # the base of the wheel needs onnx and NumPy alone
    raise ModuleNotFoundError("The client needs httpx: pip install 'takt[client]'") from error

API = "/api/v1"
AGAIN = frozenset({429, 502, 503, 504})  # what another attempt may answer differently
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 8.0


class Transport:
    """One server and one token. Requests that are safe to repeat are retried for up to `retry_seconds`: reads, and requests
    with an idempotency key."""

    def __init__(self, url: str, token: str, *, timeout: float, retry_seconds: float) -> None:
        self.url, self.retry_seconds = url.rstrip("/"), retry_seconds
        headers = {"Authorization": f"Bearer {token}", "User-Agent": "takt-python"}
        self._http = httpx.Client(headers=headers, timeout=timeout, follow_redirects=False)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def request(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **content: Any
    ) -> httpx.Response:
        """Call one operation. `path` is below /api/v1, or a whole address that the server gave. `content` goes to httpx:
        params, json, data, files, content. Raises Refused and Unreachable."""
        sent = dict(headers or {})
        if method == "POST":
            sent.setdefault("Idempotency-Key", uuid4().hex)
        deadline, pause = time.monotonic() + self._seconds_to_retry(method, sent), FIRST_PAUSE
        while True:
            response, fault = self._once(method, self._address(path), sent, content)
            wait = max(pause, _retry_after(response) or 0.0)
            is_final = response is not None and response.status_code not in AGAIN
            if is_final or time.monotonic() + wait > deadline:
                return self._checked(response, fault)
            time.sleep(wait)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _seconds_to_retry(self, method: str, headers: Mapping[str, str]) -> float:
        is_safe = method in {"GET", "PUT", "DELETE"} or "Idempotency-Key" in headers
        return self.retry_seconds if is_safe else 0.0

    def _checked(self, response: httpx.Response | None, fault: str) -> httpx.Response:
        """Return a successful response. Raises Refused for any other, and Unreachable if there is none."""
        if response is None:
            raise Unreachable(f"No answer from {self.url}: {fault}")
        if response.status_code >= 400:
            raise _refused(response)
        return response

    def _address(self, path: str) -> str:
        if path.startswith(("http://", "https://")):
            if not path.startswith(f"{self.url}/"):  # the token goes to no other server
                raise ValueError(f"{path} is not an address of {self.url}.")
            return path
        return self.url + (path if path.startswith(f"{API}/") else API + path)

    def _once(
        self, method: str, address: str, headers: dict[str, str], content: dict[str, Any]
    ) -> tuple[httpx.Response | None, str]:
        try:
            return self._http.request(method, address, headers=headers, **content), ""
        except httpx.TransportError as error:
            return None, str(error) or type(error).__name__


def _retry_after(response: httpx.Response | None) -> float | None:
    text = response.headers.get("Retry-After", "") if response is not None else ""
    return float(text) if text.isdigit() else None


def _refused(response: httpx.Response) -> Refused:
    try:
        problem = response.json()
    except ValueError:
        problem = {"title": response.reason_phrase, "detail": response.text[:200]}
    request_id = response.headers.get("X-Request-ID", "")
    found = problem if isinstance(problem, dict) else {}
    return Refused(response.status_code, found, request_id=request_id, retry_after=_retry_after(response))
