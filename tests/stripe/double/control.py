"""What only the double can do, by POST /control with JSON: outages, the clock, and how events are delivered."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tests.stripe.double.delivering import Deliverer, Manner
from tests.stripe.double.store import Fault, Store


def controlled(store: Store, deliverer: Deliverer | None, wanted: dict[str, Any]) -> dict[str, Any]:
    """Carry `{"faults": [{method, path, kind, times}], "advance": seconds, "delivery": {copies, delay, ...}}` out.

    Answers what holds now. Raises TypeError for a word that it does not know.
    """
    if "faults" in wanted:
        store.faults = [Fault(**one) for one in wanted["faults"]]
    store.offset += int(wanted.get("advance", 0))
    if deliverer is not None and "delivery" in wanted:
        deliverer.manner = Manner(**wanted["delivery"])
    return {
        "events": len(store.events),
        "delivered": deliverer.done if deliverer else 0,
        "refused": deliverer.refused if deliverer else [],
        "unfit": store.unfit,
        "faults": [asdict(one) for one in store.faults],
    }
