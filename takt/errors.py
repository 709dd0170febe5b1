"""How a call can fail."""

from __future__ import annotations

from typing import Any


class Refused(Exception):
    """The server refused a request (RFC 9457). `code` never changes for the same fault; `detail` says what to do.

    `errors` lists every fault when there are several; `request_id` finds the request in the server's logs; `retry_after`
    is in seconds, None where the server names none.
    """

    def __init__(
        self, status: int, problem: dict[str, Any], *, request_id: str = "", retry_after: float | None = None
    ) -> None:
        self.status = status
        self.code = str(problem.get("code", "request-refused"))
        self.title = str(problem.get("title", "Refused"))
        self.detail = str(problem.get("detail", ""))
        self.errors: list[dict[str, Any]] = problem.get("errors") or []
        self.request_id, self.retry_after = request_id, retry_after
        super().__init__(f"{status} {self.code}: {self.detail}")


class Unreachable(Exception):
    """No answer came from the server, also after retries."""


class Failed(Exception):
    """Accepted work ended without a result: a compile job, a check of an upload, or a job. The message has the reason."""
