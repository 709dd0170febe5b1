"""The requirements of a plan and the promises of its candidate, as stored in quotes and contracts.

Pure functions on JSON. Fractions are strings such as "3/4", and instants are strings in ISO 8601.
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
    """Return the promises of a candidate for `items` items.

    Duration, completion and price are left out if `items` is not the plan's number of items.
    """
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
    """Set the promised completion to the end of the quote's windows, and the promised price to the quote's net price."""
    promised = document.get("promises", {}).get("candidate", {})
    if "completion" in promised and document["reservation"]:
        promised["completion"] = max(one["end"] for one in document["reservation"])
    if "price" in promised:
        promised["price"] = document["net"]
