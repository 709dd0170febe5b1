"""What several programs do together with an item, in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from apps import figures
from apps.planner.solver.columns import CASCADE, ENSEMBLE
from apps.planner.solver.types import Narrowed


def combination_sentences(
    kind: str, names: Sequence[str], levels: Sequence[str | Decimal], shares: Sequence[str | Fraction]
) -> list[str]:
    """A sentence for each part of a cascade but the last, with its threshold and the bound of what goes on; one for a vote; none
    for a single program."""
    if kind == ENSEMBLE:
        return [
            f"All {len(names)} answer every item; the answer that two of them give counts, else that of {names[0]}."
        ]
    if kind != CASCADE:
        return []
    sentences: list[str] = []
    for name, following, level, share in zip(names, names[1:], levels, shares, strict=False):
        what = "answers" if not sentences else "answers these"
        sentences.append(
            f"{name} {what}; what it is less than {figures.percent_format(level, 2)} sure of goes on to {following}: at most "
            f"{figures.percent_format(share, 2)} of the items with 95 % confidence."
        )
    return sentences


def narrowed_sentence(one: Narrowed) -> str:
    """That not every program of a pool was combined."""
    return f"On {one.pool}, {one.used} of {one.known} programs were combined with each other."
