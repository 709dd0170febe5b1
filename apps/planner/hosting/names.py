"""Normalise machine names: "NVIDIA H100 80GB HBM3" equals "NVIDIA-H100-80GB-HBM3", but "L40" does not equal "L40S"."""

from __future__ import annotations

import re

LONGEST = 120
_APART = re.compile(r"[^a-z0-9.]+")


def name_key(text: str) -> str:
    """Return the name in lower case, with a hyphen between its parts; "" if it has no letter or digit."""
    return _APART.sub("-", text.casefold()).strip("-")[:LONGEST]
