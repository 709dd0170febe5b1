"""The one exception type in which everything that a model can do wrong ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

SHOWN = 50  # problems that a message lists


@dataclass(frozen=True)
class Hint:
    """What whoever called can give: the name of an argument of the library, and an example of its value.

    Every face has its own way to say that: the library its argument (``str``), a command line its option, a page nothing.
    """

    argument: str
    example: Mapping[str, int] | str

    def __str__(self) -> str:
        return f"{self.argument}={dict(self.example) if isinstance(self.example, Mapping) else self.example!r}"


class ModelError(Exception):
    """A model that cannot be compiled, with what to change.

    ``message`` says it in words that fit every face, without what the library's own text (``str``) adds from ``hint``.
    ``node`` is the name of the operation at fault (empty when the file as a whole is), ``problems`` lists every
    finding when more than one is known at once (each a ``ModelError`` of its own, and a line below the message).
    """

    def __init__(
        self, message: str, *, node: str = "", problems: tuple[ModelError, ...] = (), hint: Hint | None = None
    ) -> None:
        self.message = message
        self.node = node
        self.problems = problems
        self.hint = hint
        super().__init__(self.told(str))

    def told(self, hinted: Callable[[Hint], str] | None = None) -> str:
        """The whole in the words of a face: ``hinted`` says a hint; without it hints are left out."""
        said = self.message
        if hinted is not None and self.hint is not None:
            stem = said.removesuffix(".")
            said = f"{stem}, such as {hinted(self.hint)}{said[len(stem) :]}"
        lines = [f"{self.node}: {said}" if self.node else said]
        lines += [f"- {problem.told(hinted)}" for problem in self.problems[:SHOWN]]
        if len(self.problems) > SHOWN:
            lines.append(f"- and {len(self.problems) - SHOWN} more")
        return "\n".join(lines)


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
        """The message, the bytes and the levers as plain data."""
        return {
            "message": self.message,
            "asked": self.asked,
            "available": self.available,
            "gap": self.gap,
            "levers": self.levers,
        }
