"""Describes in words how several programs process an item."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from apps import figures
from apps.planner.solver.combinations import CASCADE, ENSEMBLE
from apps.planner.solver.types import Narrowed


def combination_sentences(
    kind: str, names: Sequence[str], levels: Sequence[str | Decimal], shares: Sequence[str | Fraction]
) -> list[str]:
    """Return one sentence for each fallback of a cascade, and one sentence for an ensemble.

    `levels` are the confidence thresholds of a cascade. `shares` are upper bounds on the share of items that fall back.
    Both are from 0 to 1.
    """
    if kind == ENSEMBLE:
        vote = f"Runs all {len(names)} programs on every item and uses the answer that two programs share"
        return [f"{vote}; if all answers differ, uses the answer of {names[0]}."]
    if kind != CASCADE:
        return []
    sentences: list[str] = []
    for name, following, level, share in zip(names, names[1:], levels, shares, strict=False):
        confidence, most = _percent(level), _percent(share)
        begin = (
            f"Below {confidence} confidence, {name}"
            if sentences
            else f"Runs {name} first; below {confidence} confidence"
        )
        sentences.append(f"{begin} falls back to {following}: at most {most} of items, with 95 % confidence.")
    return sentences


def narrowed_sentence(one: Narrowed) -> str:
    """Return a sentence that says how many of a pool's programs were combined."""
    return f"On {one.pool}, only {one.used} of {one.known} programs were combined with each other."


def _percent(share: str | Decimal | Fraction) -> str:
    places = 0 if (Fraction(share) * 100).denominator == 1 else 2
    return figures.percent_format(share, places)
