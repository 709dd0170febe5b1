"""One processor with one program, whose state stays from call to call: what generates token by token."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from compiler.errors import ModelError
from compiler.isa import NUMPY
from compiler.isa.binary import Binary, StateSlot
from compiler.isa.resources import Counters
from compiler.simulator.forms import Array
from compiler.simulator.run import Outputs, execute, feed_arrays, loaded, target_of
from compiler.targets import Target

_MAGIC = b"TAKTSTA\n"


class Session:
    """Runs a program again and again; each call begins when the one before has ended.

    ``state``: first values by name (others keep the program's own), or what ``save`` gave. Errors as in ``simulate``.
    """

    def __init__(
        self, data: bytes, state: Mapping[str, Any] | bytes | None = None, target: str | Target | None = None
    ) -> None:
        self._binary = Binary.from_bytes(data)
        self._processor = loaded(self._binary, target_of(self._binary, target))
        self._clock = 0
        self._context = _context(self._binary)
        if isinstance(state, bytes):
            self._restore(state)
        elif state:
            self.set_state(state)

    def run(self, feed: Mapping[str, Any]) -> tuple[Outputs, Counters]:
        """One inference: outputs by name and its counters."""
        arrays = feed_arrays(self._binary, feed, None)
        if self._context is not None:
            self._require_room(*self._context)
        outputs, counters, self._clock = execute(self._processor, [arrays], self._clock)
        return outputs[0], counters[0]

    def _require_room(self, slot: StateSlot, rows: int, tokens: int) -> None:
        held = int(self._bytes(slot).view(np.int64)[0])
        if held + tokens > rows:
            raise ModelError(
                f"The caches hold {held} of at most {rows} tokens, and a run adds {tokens}. Begin a new session, or compile "
                "the model with a longer context."
            )

    @property
    def state(self) -> dict[str, Array]:
        """A copy of every variable by name."""
        return {
            slot.name: self._bytes(slot).view(NUMPY[slot.dtype]).reshape(slot.shape).copy()
            for slot in self._binary.states
        }

    def set_state(self, values: Mapping[str, Any]) -> None:
        """Give variables other values; ``ModelError`` for a name, shape or type that the program does not have."""
        slots = {slot.name: slot for slot in self._binary.states}
        for name, value in values.items():
            array = np.ascontiguousarray(value)
            if name not in slots:
                raise ModelError(f"there is no state {name!r}; the program has {', '.join(slots) or 'none'}")
            slot = slots[name]
            if array.shape != slot.shape or array.dtype != NUMPY[slot.dtype]:
                raise ModelError(
                    f"state {name!r} is {array.dtype}{list(array.shape)}, the program keeps "
                    f"{NUMPY[slot.dtype]}{list(slot.shape)}"
                )
            self._bytes(slot)[:] = array.reshape(-1).view(np.uint8)

    def save(self) -> bytes:
        """All variables as bytes, for a later session of the same program."""
        parts = [_MAGIC, bytes.fromhex(self._binary.digest)]
        return b"".join([*parts, *(self._bytes(slot).tobytes() for slot in self._binary.states)])

    def _restore(self, data: bytes) -> None:
        head = _MAGIC + bytes.fromhex(self._binary.digest)
        sizes = [len(slot.initial) for slot in self._binary.states]
        if data[: len(head)] != head or len(data) != len(head) + sum(sizes):
            raise ModelError(
                "these are not the variables of this program; save them from a session of the same program"
            )
        at = len(head)
        for slot, size in zip(self._binary.states, sizes, strict=True):
            self._bytes(slot)[:] = np.frombuffer(data, np.uint8, size, at)
            at += size

    def _bytes(self, slot: StateSlot) -> Array:
        return self._processor.memory.data[slot.base : slot.base + len(slot.initial)]


def _context(binary: Binary) -> tuple[StateSlot, int, int] | None:
    """Where the length of the caches is kept, how many rows they have, and how many a run adds; None without caches."""
    if not any(slot.dtype == "i64" and slot.shape == (1,) for slot in binary.states):
        return None
    try:
        facts = json.loads(binary.notes)["metadata"]
        slots = [slot for slot in binary.states if slot.name == facts["length"]]
        return slots[0], int(facts["context"]), int(facts["tokens"])
    except (ValueError, LookupError, TypeError):
        return None
