"""What planes do: a chain is the passes over all K tiles that complete some rows of some columns.

A step of it is one weight tile and the MATMULs that use it. A chain stays on one plane; which one, and when, is decided
with everything else that is scheduled.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Step:
    """``load``: the LOADW tile; ``uses``: its MATMULs; both as tile numbers. ``weights``: what tells tiles apart."""

    load: int
    weights: tuple[int, ...]
    uses: list[int] = field(default_factory=list)
