"""Normalise machine names, so that "NVIDIA H100 80GB HBM3" equals "NVIDIA-H100-80GB-HBM3"."""

from __future__ import annotations

import re

LONGEST = 120
_APART = re.compile(r"[^a-z0-9.]+")


def name_key(text: str) -> str:
    """Return the name in lower case, with hyphens between its parts; "" if there is no letter or digit."""
    return _APART.sub("-", text.casefold()).strip("-")[:LONGEST]
