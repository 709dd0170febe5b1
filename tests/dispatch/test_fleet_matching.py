"""Windows on the devices that are left: every window keeps its instants, and a place is found whenever there is one."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from apps.dispatch.fleet.matching import Booking, Placement, place
from tests.tiers import some

DEVICES = ("a", "b", "c")


@st.composite
def pools(draw: st.DrawFn) -> list[Booking]:
    """Windows on three devices, none over another of its device; those that begin at 0 have begun."""
    found: list[Booking] = []
    for device in DEVICES:
        at = 0
        for gap, length in draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=3)):
            found.append(Booking(f"{device}{at + gap}", device, at + gap, at + gap + length, at + gap > 0))
            at += gap + length
    return found


def places(settled: Placement, windows: list[Booking]) -> dict[str, str]:
    return {one.key: settled.moves.get(one.key, one.device) for one in windows}


def overlaps(windows: list[Booking], at: dict[str, str]) -> bool:
    """Two windows on one device at one instant."""
    return any(
        at[one.key] == at[other.key] and one.start < other.end and other.start < one.end
        for index, one in enumerate(windows)
        for other in windows[:index]
    )


def fewest_that_stay(windows: list[Booking], active: list[str]) -> int:
    """By trying everything: how few windows that may move stay on a leaving device."""
    choices = [{one.device, *active} if one.is_free else {one.device} for one in windows]
    best = len(windows)
    for chosen in product(*choices):
        at = {one.key: name for one, name in zip(windows, chosen, strict=True)}
        count = sum(one.is_free and at[one.key] not in active for one in windows)
        if count < best and not overlaps(windows, at):
            best = count
    return best


@given(pools(), st.sets(st.sampled_from(DEVICES), min_size=1, max_size=2), st.booleans())
@settings(max_examples=some(150))
def test_as_few_windows_stay_as_can(windows: list[Booking], leaving: set[str], may_stay: bool) -> None:
    active = [name for name in DEVICES if name not in leaving]
    settled = place(windows, active, draining=leaving if may_stay else ())
    at = places(settled, windows)
    assert not overlaps(windows, at)
    assert all(at[one.key] == one.device for one in windows if not one.is_free)
    staying = {one.key for one in settled.stays}
    assert staying == {one.key for one in windows if at[one.key] not in active}
    least = fewest_that_stay(windows, active)
    count = sum(one.is_free for one in settled.stays)
    assert count == least if may_stay else (count == 0) == (least == 0)


def test_a_placement_that_first_fit_misses_is_found() -> None:
    """b's windows fit between a's only where one of a's goes to c."""
    windows = [
        Booking("a1", "a", 1, 3),
        Booking("a4", "a", 4, 9),
        Booking("c1", "c", 2, 5),
        Booking("c6", "c", 6, 9),
        Booking("b", "b", 3, 6),
    ]
    settled = place(windows, ["a", "c"])
    assert settled.stays == [Booking("b", "b", 3, 6)]  # at 4 three windows overlap
    settled = place([one._replace(start=5) if one.key == "a4" else one for one in windows], ["a", "c"])
    assert not settled.stays


def test_where_too_many_overlap_the_one_that_ends_last_stays() -> None:
    spans = {"c": (1, 10), "d": (1, 3), "e": (2, 4), "f": (5, 9), "g": (5, 9)}
    windows = [Booking(name, name, start, end) for name, (start, end) in spans.items()]
    assert [one.key for one in place(windows, ["a", "b"], draining=set(spans)).stays] == ["c"]


def test_a_window_goes_back_where_it_is_wanted() -> None:
    settled = place([Booking("x", "a", 1, 2), Booking("y", "b", 1, 2)], ["a", "b", "c"], wanted={"x": "c", "y": "a"})
    assert settled.moves == {"x": "c", "y": "a"}
