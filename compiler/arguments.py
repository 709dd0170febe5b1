"""What the library's functions are given, as they need it: a wrong form is a ``ModelError`` that says the right one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from compiler.errors import ModelError

if TYPE_CHECKING:
    from compiler.frontend.states import Pair


def dims_of(given: Any) -> dict[str, int | Sequence[int]]:
    """Sizes by dimension, lists of them for buckets; whole numbers of any type (NumPy's too)."""
    form = 'write dims={"batch": 1}, or dims={"batch": [1, 8]} for buckets'
    found: dict[str, int | Sequence[int]] = {}
    for name, size in _named(given, "dims", form).items():
        several = isinstance(size, Iterable) and not isinstance(size, str | bytes)
        wrong = f"The dimension {name!r} needs a whole number of at least 1, or 0 for no rows, not {repr(size)[:80]}; {form}."
        found[name] = [_whole(one, wrong, 0) for one in size] if several else _whole(size, wrong, 0)
    return found


def bounds_of(given: Any) -> dict[str, int]:
    """Most trips by loop."""
    form = 'write bounds={"loop": 20}'
    return {
        name: _whole(
            trips, f"The bound of {name!r} is a whole number of at least 0, not {repr(trips)[:80]}; {form}.", 0
        )
        for name, trips in _named(given, "bounds", form).items()
    }


def constants_of(given: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Arrays by input."""
    found = {}
    for name, value in _named(given, "constants", 'write constants={"input": array}').items():
        try:
            found[name] = np.asarray(value)
        except ValueError as error:  # rows of different lengths
            raise ModelError(f"The constant for {name!r} is no array: {error}.") from None
        if found[name].dtype.hasobject:
            raise ModelError(f"The constant for {name!r} is no array of numbers but {type(value).__name__}.")
    return found


def states_of(given: Any) -> list[Pair]:
    """(input, output) pairs, perhaps with a first value."""
    form = 'write states=[("cache_in", "cache_out")], a pair of an input and an output for each'
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise ModelError(f"States are a list of pairs, not {type(given).__name__}; {form}.")
    found = list(given)
    for pair in found:
        if (
            not isinstance(pair, tuple | list)
            or len(pair) not in (2, 3)
            or not all(isinstance(n, str) for n in pair[:2])
        ):
            raise ModelError(
                f"The state {repr(pair)[:80]} is no pair of names; {form} (with its first value as a third part)."
            )
    return found


def context_of(context: Any, caches: Any) -> dict[str, Any]:
    """Rows of caches and the pairs that are some, as ``frontend.load`` takes them; nothing where there is no context."""
    pairs = [(pair[0], pair[1]) for pair in states_of(caches)]
    if context is None:
        if pairs:
            raise ModelError("Caches are named without a context; add context=256, the rows that they have at most.")
        return {}
    return {
        "context": _whole(context, "The context is a whole number of at least 2; write context=256.", 2),
        "caches": pairs,
    }


def _named(given: Any, argument: str, form: str) -> dict[str, Any]:
    try:
        found = dict(given or {})
    except (TypeError, ValueError):
        raise ModelError(f"{argument} is a mapping, not {type(given).__name__}; {form}.") from None
    wrong = [name for name in found if not isinstance(name, str)]
    if wrong:
        raise ModelError(f"{argument} names {wrong[0]!r}, which is no text; {form}.")
    return found


def _whole(value: Any, wrong: str, least: int) -> int:
    try:
        number = index(value)
    except TypeError:
        raise ModelError(wrong) from None
    if isinstance(value, bool) or number < least:
        raise ModelError(wrong)
    return number
