"""The sentences about a list's filters that have unknown values, such as `?state=nonsense`.

A list ignores such a filter. The page says so with `templates/components/unknown_filters.html`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

SHOWN = 40  # characters of the unknown value


class UnknownFilter(NamedTuple):
    """A filter that was ignored: the title and the sentence for the page."""

    title: str
    detail: str


def unknown_filter(name: str, value: str, *, rows: str, labels: Sequence[str] = ()) -> UnknownFilter:
    """Return what to say about the unknown value of the filter `name`.

    `rows` names the rows of the list, such as "jobs". `labels` are the known values as the filter shows them.
    """
    text = value if len(value) <= SHOWN else f"{value[:SHOWN]}…"
    detail = f"There is no {name} “{text}”, so {rows} of every {name} are shown."
    if labels:
        detail += f" Choose {', '.join(labels[:-1])} or {labels[-1]}."
    return UnknownFilter(f"No such {name}", detail)
