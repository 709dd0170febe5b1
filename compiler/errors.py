"""The one exception type in which everything that a model can do wrong ends."""

from __future__ import annotations


class ModelError(Exception):
    """A model that cannot be compiled, with what to change.

    ``node`` is the name of the operation at fault (empty when the file as a whole is), ``problems`` lists every
    finding when more than one is known at once (each a ``ModelError`` of its own).
    """

    def __init__(self, message: str, *, node: str = "", problems: tuple[ModelError, ...] = ()) -> None:
        super().__init__(f"{node}: {message}" if node else message)
        self.message = message
        self.node = node
        self.problems = problems


class DoesNotFit(ModelError):
    """A program that is larger than its processor, as data: bytes asked, available, and what would close the gap.

    ``levers``: each ``{"lever": name, "effect": bytes saved or made available, "text": sentence}``.
    """

    def __init__(self, message: str, *, asked: int, available: int, levers: list[dict[str, object]]) -> None:
        super().__init__(message)
        self.asked = asked
        self.available = available
        self.gap = asked - available
        self.levers = levers

    def to_json(self) -> dict[str, object]:
        return {
            "message": self.message, "asked": self.asked, "available": self.available, "gap": self.gap,
            "levers": self.levers,
        }  # fmt: skip
