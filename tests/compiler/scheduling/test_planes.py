"""Places on a plane: the first start at which the array, the port and a slot are free, whatever was looked for before."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.scheduling.planes import Block, Place, Plane
from compiler.scheduling.reservation import ONCE
from tests.tiers import some

KINDS = [(beats, load, 2) for beats in (1, 4) for load in (1, 3)]
WANTED = st.tuples(
    st.integers(0, 4), st.sampled_from(KINDS), st.integers(0, 50), st.integers(0, 40), st.sampled_from([20, 1 << 60])
)


def _first(plane: Plane, block: Block, ready: int, loadable: int, before: int) -> Place | None:
    lead = block.load + block.latency
    for start in range(max(ready, loadable + lead), min(before, 2_000)):
        if not plane.array.free(start, block.beats):
            continue
        load = next((at for at in range(start - lead, loadable - 1, -1) if plane.port.free(at, block.load)), None)
        if load is None:
            continue
        filled = load + block.latency
        for number, slot in enumerate(plane.slots):
            if slot.free(filled, start + block.beats - filled):
                return Place(start, load, number)
    return None


@settings(max_examples=some(100))
@given(st.lists(WANTED, max_size=40), st.sampled_from([1, 2]))
def test_a_block_of_new_weights_takes_the_first_place_that_is_free(
    wanted: list[tuple[object, ...]], slots: int
) -> None:
    plane = Plane(slots, 1, ONCE)
    for number, (tile, kind, ready, loadable, before) in enumerate(wanted):
        block = Block((number, tile), *kind)  # type: ignore[misc]
        found = plane.fit(block, ready, loadable, before)  # type: ignore[arg-type]
        assert found == _first(plane, block, ready, loadable, before)  # type: ignore[arg-type]
        if found is not None:
            plane.begin()
            plane.take(block, found, number)
            if tile == 0:
                plane.undo()
