"""The artefact of a calibration: written once, it compiles the model again without the examples, to the same bytes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from compiler.errors import ModelError
from compiler.ir import Graph
from compiler.ir.text import to_text
from compiler.precision.plan import Range

FORMAT = 1
LARGEST = 2.0**144  # float32 ends at 2^128, and a mask that is added to a mask lies a little beyond
LOCAL = 30.0  # dB that a contraction of codes must keep of its own result


class OtherRanges(ModelError):
    """Ranges that were taken of another graph, or for another precision."""


def identity(graph: Graph) -> str:
    """SHA-256 of what an optimised graph computes, sizes and weights included; not of the file that it came from."""
    return sha256(to_text(replace(graph, metadata={})).encode()).hexdigest()


@dataclass(frozen=True)
class Calibration:
    """``ranges``: smallest and largest element by value of the optimised graph. ``loss``: by contraction and mode the
    signal-to-noise ratio in dB of that one operation. ``limit``: which of them are good enough. ``errors``: by precision and
    output what a program loses. ``seeded``: the feeds were made up; ``count`` of them gave ranges, ``unseen`` others measured
    (0: the same ones did). ``graph``: ``identity`` of the graph that they belong to; empty where that was not kept."""

    ranges: Mapping[str, Range]
    loss: Mapping[str, Mapping[str, float]]
    seeded: bool
    count: int
    unseen: int = 0
    limit: float = LOCAL
    errors: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    graph: str = ""

    def require(self, precision: str) -> None:
        """``OtherRanges`` when the limit and the errors are those of another precision."""
        if self.errors and precision not in self.errors:
            found = " and ".join(self.errors)
            raise OtherRanges(f"the ranges were taken for {found}, not for {precision}; calibrate for {precision}")

    def to_json(self) -> str:
        """The same text for the same model and feeds, on every machine."""
        found = {
            "format": FORMAT,
            "seeded": self.seeded,
            "feeds": self.count,
            "unseen": self.unseen,
            "limit": self.limit,
            "graph": self.graph,
            "errors": self.errors,
            "loss": self.loss,
            "ranges": {name: list(self.ranges[name]) for name in self.ranges},
        }
        return json.dumps(found, indent=1, sort_keys=True) + "\n"

    @staticmethod
    def from_json(text: str) -> Calibration:
        """The calibration in ``text``; ``ModelError`` when it holds none."""
        try:
            found = json.loads(text)
            version = found["format"]
            ranges = {str(n): (float(low), float(high)) for n, (low, high) in found["ranges"].items()}
            loss = {str(n): {str(m): float(v) for m, v in modes.items()} for n, modes in found["loss"].items()}
            errors = {
                str(p): {str(n): dict(one) for n, one in outputs.items()} for p, outputs in found["errors"].items()
            }
            counts = int(found["feeds"]), int(found.get("unseen", 0))
            of = str(found.get("graph", ""))
            made = Calibration(ranges, loss, bool(found["seeded"]), *counts, float(found["limit"]), errors, of)
            if any(end != end or LARGEST < abs(end) < math.inf for both in ranges.values() for end in both):
                raise ValueError("a range ends far beyond float32")
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ModelError(
                "the ranges are not readable; take the file as it was written, or calibrate again"
            ) from error
        if version != FORMAT:
            raise ModelError(f"the ranges have format {version!r}, this version reads {FORMAT}; calibrate again")
        return made
