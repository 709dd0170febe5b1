"""A search for an input whose execution costs more than the bound of its program."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, seed, settings, target
from hypothesis import strategies as st
from hypothesis.errors import HypothesisWarning

import compiler
from compiler.isa.element import NUMPY
from compiler.isa.resources import Resources
from compiler.simulator import SimulationError

Array = np.ndarray[Any, Any]
FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=True) | st.sampled_from([0.0, 1.0, -1.0, 1e-3, 3.0, 1e30])


@dataclass
class Found:
    """What a search has seen of one program."""

    bound: int
    cycles: Counter[int] = field(default_factory=Counter)
    refused: int = 0
    exceeded: list[str] = field(default_factory=list)


def arrays(kind: np.dtype[Any], shape: tuple[int, ...]) -> st.SearchStrategy[Array]:
    """Inputs of a port: whole arrays at random scale, or drawn element by element where they are few."""
    if kind.kind == "b":
        few: st.SearchStrategy[Any] = st.booleans()
    elif kind.kind in "iu":
        few = st.integers(0, 9)
    else:
        few = FLOATS
    size = int(np.prod(shape))

    def scaled(number: int, scale: float, shift: float) -> Array:
        values = np.random.default_rng(number).standard_normal(shape) * scale + shift
        return np.asarray(values > 0 if kind.kind == "b" else values).astype(kind)

    wide = st.builds(scaled, st.integers(0, 1 << 20), st.sampled_from([0.01, 0.1, 1.0, 5.0]), st.floats(-3, 3))
    drawn = st.lists(few, min_size=size, max_size=size).map(lambda v: np.array(v, kind).reshape(shape))
    return st.one_of(wide, drawn) if size <= 64 else wide


def search(program: compiler.Program, examples: int, number: int = 0, bound: Resources | None = None) -> Found:
    """Looks for an input of ``program`` that counts more than its resources (or than ``bound``) in any field."""
    bound = bound or program.resources
    found = Found(bound.cycles)
    ports = [p for p in program.binary.ports if not p.output]
    strategy = st.fixed_dictionaries({p.name: arrays(NUMPY[p.host or p.dtype], p.shape) for p in ports})
    session = [compiler.Session(program.to_bytes())]

    def attempt(feed: Mapping[str, Array]) -> None:
        try:
            _, counters = session[0].run(feed)
        except SimulationError:  # more trips than were stated: a fault, and no cost beyond the bound
            session[0] = compiler.Session(program.to_bytes())
            found.refused += 1
            return
        found.cycles[counters.cycles] += 1
        if not counters.within(bound):
            found.exceeded.append(f"{counters.to_json()} for {feed}")
        target(float(counters.cycles))

    checked: Callable[..., None] = given(strategy)(attempt)
    checked = settings(max_examples=examples, database=None, deadline=None, suppress_health_check=list(HealthCheck))(
        seed(number)(checked)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HypothesisWarning)
        checked()
    return found
