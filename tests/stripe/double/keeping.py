"""Keeps what the sandbox holds in a file, so that our database and its other side end and begin together."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from tests.stripe.double.store import Saved, Store


def saved(store: Store, path: Path) -> None:
    """Write everything, whole or not at all."""
    with store.lock:
        held = {
            "count": store.count,
            "offset": store.offset,
            "objects": store.objects,
            "events": [one["id"] for one in store.events],
            "keys": {name: asdict(one) for name, one in store.keys.items()},
            "meters": store.meters,
        }
        text = json.dumps(held)
    half = path.with_suffix(".half")
    half.write_text(text)
    half.replace(path)


def loaded(path: Path) -> Store:
    """The store of a file; an empty one where there is none."""
    store = Store()
    if path.exists():
        held = json.loads(path.read_text())
        store.count, store.offset, store.objects, store.meters = (
            held[name] for name in ("count", "offset", "objects", "meters")
        )
        store.events = [store.objects[name] for name in held["events"]]
        store.keys = {name: Saved(**one) for name, one in held["keys"].items()}
    return store
