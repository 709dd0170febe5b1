"""When two texts name the same machine: "NVIDIA H100 80GB HBM3" and "NVIDIA-H100-80GB-HBM3" do, "L40" and "L40S" do not."""

from __future__ import annotations

import re

LONGEST = 120
_APART = re.compile(r"[^a-z0-9.]+")


def name_key(text: str) -> str:
    """Small letters, digits and dots, with one hyphen for whatever else stands between them; "" when nothing is left."""
    return _APART.sub("-", text.casefold()).strip("-")[:LONGEST]
