"""The changes between two fleet documents, as data and as a sentence."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

from apps.fleet.document.model import Document, Pool, natural

VERBS = {"active": "put in service", "draining": "drained", "failed": "failed", "spare": "set aside as spare"}


class Change(NamedTuple):
    """A change to an object of the kind `what`: site, processor, pool, device or cost.

    `before` is None if the object is new. `after` is None if the object is removed.
    """

    what: str
    place: str
    before: str | None
    after: str | None

    @property
    def verb(self) -> str:
        """The change in one or two words, such as "added"."""
        if self.before is None:
            return "added"
        if self.after is None:
            return "removed"
        return VERBS[self.after] if self.what == "device" else "changed"


@dataclass(frozen=True)
class Difference:
    """All changes from one document to another, sorted by kind of object."""

    changes: tuple[Change, ...]

    def __bool__(self) -> bool:
        return bool(self.changes)

    def summary(self) -> str:
        """Return a summary such as "2 devices added, 1 drained, 1 pool changed"."""
        counts = Counter((one.what, one.verb) for one in self.changes)
        parts: list[str] = []
        last = ""
        for (what, verb), count in counts.items():
            noun = "" if what == last else f" {what}" if count == 1 else f" {what}s"
            parts.append(f"{count:,}{noun} {verb}")
            last = what
        return ", ".join(parts) or "no difference"


def difference(before: Document, after: Document) -> Difference:
    """Return the changes that turn `before` into `after`."""
    return Difference(tuple(sorted(_changes(before, after), key=lambda one: _ORDER[one.what])))


_ORDER = {"site": 0, "processor": 1, "pool": 2, "device": 3, "cost": 4}


def _changes(before: Document, after: Document) -> Iterator[Change]:
    for what, facts in (("site", _sites), ("processor", _processors), ("pool", _pools)):
        yield from _compare(what, f"{what}s.", facts(before), facts(after))
    for slug in sorted({*before.pools, *after.pools}):
        old, new = before.pools.get(slug), after.pools.get(slug)
        yield from _compare("device", f"pools.{slug}.", old.devices if old else {}, new.devices if new else {})
        yield from _compare("cost", f"pools.{slug}.cost from ", _costs(old), _costs(new))


def _compare(what: str, prefix: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Change]:
    for name in sorted({*before, *after}, key=natural):
        if before.get(name) != after.get(name):
            yield Change(what, f"{prefix}{name}", before.get(name), after.get(name))


def _sites(document: Document) -> dict[str, str]:
    return {slug: _json(site.to_json()) for slug, site in document.sites.items()}


def _processors(document: Document) -> dict[str, str]:
    return {name: f"file {sha256(text.encode()).hexdigest()[:12]}" for name, text in document.processors.items()}


def _pools(document: Document) -> dict[str, str]:
    apart = {"devices", "cost"}
    return {
        slug: _json({key: value for key, value in pool.to_json().items() if key not in apart})
        for slug, pool in document.pools.items()
    }


def _costs(pool: Pool | None) -> dict[str, str]:
    rows = [cost.to_json() for cost in pool.costs] if pool else []
    return {row.pop("from"): _json(row) for row in rows}


def _json(facts: dict[str, Any]) -> str:
    return ", ".join(f"{key} {json.dumps(value, ensure_ascii=False)}" for key, value in facts.items())
