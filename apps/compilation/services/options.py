"""Checks the options of a compile against the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from apps.accounts.problems import Problem
from apps.compilation.options import CONTEXT_MAX, TRIPS_MAX
from apps.registry.models import ModelVersion

PAIRS_MAX = 1_000


def options_check(version: ModelVersion, options: Mapping[str, Any]) -> None:
    """Check the options against the model. Raises Problem(422) with one entry for each fault."""
    errors = [
        *_pair_faults(version, "states", options.get("states", {})),
        *_pair_faults(version, "caches", options.get("caches", {})),
        *_context_faults(options),
        *_bound_faults(options.get("bounds", {})),
    ]
    if errors:
        detail = " ".join(error["message"] for error in errors)
        raise Problem(422, "The options do not fit the model", detail, kind="compile-options", errors=errors)


def _pair_faults(version: ModelVersion, field: str, pairs: Mapping[str, str]) -> list[dict[str, str]]:
    if len(pairs) > PAIRS_MAX:
        return [{"field": field, "message": f"A compile can have at most {PAIRS_MAX:,} {field}."}]
    outputs = [one["name"] for one in version.outputs]
    found = [
        *_unknown(field, "input", pairs, [one["name"] for one in version.inputs]),
        *_unknown(field, "output", pairs.values(), outputs),
        *_named_twice(field, list(pairs.values())),
    ]
    if field == "states" and not found and pairs and set(pairs.values()) >= set(outputs):
        found.append("All outputs are states, so the program would have no output. Leave one out.")
    return [{"field": field, "message": message} for message in found]


def _unknown(field: str, kind: str, stated: Iterable[str], known: Sequence[str]) -> list[str]:
    text = f"The model has no {kind} {{!r}} for a {field.removesuffix('s')}; its {kind}s are {', '.join(map(repr, known))}."
    return [text.format(name) for name in dict.fromkeys(stated) if name not in known]


def _named_twice(field: str, updates: Sequence[str]) -> list[str]:
    twice = sorted({update for update in updates if updates.count(update) > 1})
    return [f"The output {update!r} is named by two {field}. Name each output once." for update in twice]


def _context_faults(options: Mapping[str, Any]) -> list[dict[str, str]]:
    context = options.get("context")
    if context is None and options.get("caches"):
        text = "Caches are named without a context. State how many tokens a sequence has at most."
        return [{"field": "context", "message": text}]
    if context is not None and not 2 <= context <= CONTEXT_MAX:
        text = f"The context must be a whole number from 2 to {CONTEXT_MAX:,}; it is {context:,}."
        return [{"field": "context", "message": text}]
    return []


def _bound_faults(bounds: Mapping[str, int]) -> list[dict[str, str]]:
    text = f"The bound of the loop {{!r}} must be a whole number from 0 to {TRIPS_MAX:,}."
    wrong = [name for name, trips in bounds.items() if not 0 <= trips <= TRIPS_MAX]
    return [{"field": "bounds", "message": text.format(name)} for name in wrong]
