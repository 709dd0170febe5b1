"""What a plan required and what its candidate promised, as a quote and its contract keep them. Pure: plain JSON.

`promises` of a quote's document: {"plan", "items", "number" (of the candidate; null: the chosen one), "required": {...},
"candidate": {...}, "data": {"metric", "name", "digest"} or null}. Exact numbers as strings: fractions as "3/4", instants as
ISO 8601.
"""

from __future__ import annotations

from typing import Any

REQUIRED = ("accuracy", "latency", "duration", "budget", "completion", "until")
PROMISED = (
    "kind",
    "title",
    "pool",
    "programs",
    "output",
    "threshold",
    "accuracy",
    "latency",
    "duration",
    "completion",
    "certainty",
    "share",
    "price",
)


def promises_of(
    *,
    plan_id: str,
    requirements: dict[str, Any],
    candidate: dict[str, Any],
    basis: dict[str, Any],
    items: int,
    number: int | None = None,
) -> dict[str, Any]:
    """What is frozen of a plan's candidate for so many items. What counts all of the plan's items (duration, completion,
    price) is promised only where the quote is for as many."""
    whole = int(requirements["items"]) == items
    of_all = {"duration", "completion", "price"}
    data = basis.get("data_set")
    return {
        "plan": plan_id,
        "items": items,
        "number": number,
        "required": {name: requirements[name] for name in REQUIRED if requirements.get(name) is not None},
        "candidate": {
            name: candidate[name]
            for name in PROMISED
            if candidate.get(name) is not None and (whole or name not in of_all)
        },
        "data": None if data is None else {"metric": basis["metric"], "name": data["name"], "digest": data["digest"]},
    }


def promises_settle(document: dict[str, Any]) -> None:
    """Completion and price as the quote itself states them: when the windows end that accepting would take, and its net."""
    promised = document.get("promises", {}).get("candidate", {})
    if "completion" in promised and document["reservation"]:
        promised["completion"] = max(one["end"] for one in document["reservation"])
    if "price" in promised:
        promised["price"] = document["net"]
