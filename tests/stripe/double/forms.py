"""The nested form encoding that Stripe's API takes: `a[b][0]=1`."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl

_PARTS = re.compile(r"\[([^\[\]]*)\]")


def decoded(text: str) -> dict[str, Any]:
    """The tree of strings that a query or a body stands for; keys that are all numbers make a list."""
    tree: dict[str, Any] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        head, _, rest = name.partition("[")
        place, parts = tree, [head, *_PARTS.findall(f"[{rest}" if rest else "")]
        for part in parts[:-1]:
            step = place.setdefault(part or str(len(place)), {})
            if not isinstance(step, dict):
                raise ValueError(f"{name} is both a value and a group")
            place = step
        place[parts[-1] or str(len(place))] = value
    return {name: _listed(value) for name, value in tree.items()}


def _listed(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inner = {name: _listed(one) for name, one in value.items()}
    if inner and all(name.isdigit() for name in inner):
        return [inner[name] for name in sorted(inner, key=int)]
    return inner
