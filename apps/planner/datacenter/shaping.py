"""Generates a day's requests from a seed, in the pattern of a trace."""

from __future__ import annotations

import numpy as np

from apps.planner.datacenter.types import SECOND, Requests, Whole


def requests_like(
    at: Whole,
    executions: Whole,
    *,
    count: int,
    until: int,
    popularity: np.ndarray[tuple[int], np.dtype[np.float64]],
    dice: np.random.Generator,
) -> Requests:
    """Return `count` requests in [0, until) that follow a trace. `at` has the trace's arrivals in microseconds from 0.

    Requests are drawn at random from the trace, which is repeated until the end. Programs are drawn according to
    `popularity`.
    """
    length = int(at.max()) + 1 if len(at) else SECOND
    repeats = -(-until // length)
    chosen, turn = dice.integers(0, len(at), count), dice.integers(0, repeats, count)
    moments = at[chosen] + turn * length + dice.integers(-SECOND // 2, SECOND // 2 + 1, count)
    outside = (moments < 0) | (moments >= until)  # in the last, partial repetition: move them to an earlier one
    whole = dice.integers(0, max(1, until // length), int(outside.sum()))
    moments[outside] = np.minimum(at[chosen[outside]] + whole * length, until - 1)
    program = np.searchsorted(np.cumsum(popularity), dice.random(count) * popularity.sum(), side="right")
    order = np.argsort(moments, kind="stable")
    return Requests(
        moments[order], np.minimum(program, len(popularity) - 1)[order], np.maximum(executions[chosen], 1)[order]
    )
