"""How Stripe's API refuses."""

from __future__ import annotations

from typing import Any


class Refused(Exception):
    """A refusal in Stripe's shape. `is_saved` says whether an idempotency key remembers it."""

    def __init__(
        self,
        status: int,
        kind: str,
        message: str,
        *,
        code: str = "",
        param: str = "",
        is_saved: bool = True,
        **more: Any,
    ) -> None:
        super().__init__(message)
        self.status, self.is_saved = status, is_saved
        named = {"code": code, "param": param, **more}
        self.error = {"type": kind, "message": message, **{key: value for key, value in named.items() if value}}

    @property
    def body(self) -> dict[str, Any]:
        """What is answered."""
        return {"error": self.error}


def invalid(message: str, *, code: str = "", param: str = "", status: int = 400) -> Refused:
    """The present state does not allow what was asked."""
    return Refused(status, "invalid_request_error", message, code=code, param=param)


def malformed(message: str, *, code: str, param: str) -> Refused:
    """A parameter is wrong; nothing was begun, so no key remembers it."""
    return Refused(400, "invalid_request_error", message, code=code, param=param, is_saved=False)


def missing(kind: str, name: str) -> Refused:
    """There is no such object."""
    return Refused(404, "invalid_request_error", f"No such {kind}: '{name}'", code="resource_missing", param="id")
