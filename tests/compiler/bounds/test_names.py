"""What a box surely takes behind a reshape or a join is in every box of these sizes, counted one by one."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.bounds.names import behind, reshaped
from compiler.bounds.ways import Ways
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from tests.tiers import some

SHAPES = [(12,), (3, 4), (2, 6), (2, 3, 2), (4, 1, 3), (6, 2), (1, 12), (2, 2, 3), (12, 1)]
SHAPES += [(3, 2, 2), (2, 1, 6), (4, 3)]


def contains(flags, sizes):
    """Whether some product of index sets of these sizes is all true."""
    sets = [list(combinations(range(n), k)) for n, k in zip(flags.shape, sizes, strict=True)]
    return any(flags[np.ix_(*each)].all() for each in product(*sets))


@settings(max_examples=some(150), deadline=None)
@given(before=st.sampled_from(SHAPES), after=st.sampled_from(SHAPES), data=st.data())
def test_a_box_of_a_reshaped_value_contains_what_is_said(before, after, data):
    sets = [data.draw(st.sets(st.integers(0, n - 1), min_size=1)) for n in after]
    flags = np.zeros(after, dtype=bool)
    flags[np.ix_(*(sorted(s) for s in sets))] = True
    found = reshaped(before, after, tuple(len(s) for s in sets))
    assert contains(flags.reshape(before), found)


@pytest.mark.parametrize(
    ("before", "after", "box", "found"),
    [
        ((2, 60, 8), (120, 8), (120, 3), (2, 60, 3)),
        ((120, 8), (2, 60, 8), (1, 7, 3), (7, 3)),
        ((8, 40), (320,), (41,), (1, 6)),
        ((1, 480, 1, 40), (480, 40), (480, 1), (1, 480, 1, 1)),
        ((1, 2048, 64), (512, 256), (512, 1), (1, 512, 1)),  # of four values side by side each column is in one
        ((2048, 64), (512, 256), (3, 256), (12, 64)),
        ((2048, 64), (512, 256), (3, 130), (3, 33)),
        ((4, 9), (6, 6), (6, 1), (1, 2)),  # no factors of both
    ],
)
def test_boxes_that_were_counted_by_hand(before, after, box, found):
    assert reshaped(before, after, box) == found


def joined():
    b = Builder("join")
    parts = [b.input(f"x{n}", TensorType(DType.F32, (2, size))) for n, size in enumerate((3, 5))]
    b.join(parts, 1)
    return b.finish({"y": b.join(parts, 1)}, {}, {})


@pytest.mark.parametrize("taken", range(9))
def test_of_the_indices_of_a_join_each_part_has_at_least_what_the_others_have_not(taken):
    graph = joined()
    node = next(n for n in graph.nodes if n.output == "y")
    found = dict(behind(node, graph, (2, taken)))
    for part, inside in zip(node.parts, (range(3), range(3, 8)), strict=True):
        least = min(len(set(which) & set(inside)) for which in combinations(range(8), taken))
        assert found.get(part) == ((2, least) if least else None)


def test_joins_of_joins_of_one_value_are_looked_at_once():
    b = Builder("twice")
    x = value = b.compute(
        (1,), [Operand(b.input("x", TensorType(DType.F32, (1,))), Access.identity(1))], arg(0, DType.F32).op("exp")
    )
    for _ in range(18):
        value = b.join([value, value], 0)
    whole = [Operand(value, Access((0,), ((0, 1),)))]
    y = b.compute((1, 1 << 18), whole, arg(0, DType.F32), parallel=1, reducer="max")
    graph = b.finish({"y": y}, {}, {})
    assert Ways(graph).pieces[graph.nodes[-1].output] == [x]
