"""What the report page draws from the compiler's report: nothing is lost, nothing is counted twice."""

from __future__ import annotations

import csv
import io
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from apps.pages.report import graph, memory, rows, timeline
from tests.tiers import some

UNITS = ["matrix[0]", "matrix[1]", "vector[0]"]


@st.composite
def reports(draw: st.DrawFn) -> dict[str, Any]:
    """A report with gapless or gapped lanes of random runs; operations 0..n-1 with cycles that sum to the latency."""
    operations = draw(st.integers(1, 30))
    lanes, latency = [], 1
    for unit in UNITS:
        at = 0
        for _ in range(draw(st.integers(0, 60))):
            at += draw(st.integers(0, 9))
            length = draw(st.integers(1, 40))
            lanes.append([unit, at, length, draw(st.integers(0, operations - 1))])
            at += length
        latency = max(latency, at)
    lanes.sort(key=lambda run: (run[1], run[0]))
    cycles = [latency // operations] * operations
    cycles[0] += latency - sum(cycles)
    listed = [
        {
            **dict.fromkeys(rows.SUMMED, 0),
            "index": place,
            "name": f"%{place}",
            "source": [draw(st.sampled_from(["a/x", "a/y", "b/x", "plain"]))],
            "kind": "map",
            "operations": place + 1,
            "cycles": cycles[place],
            "limiting": "vector",
            "start": place,
            "end": place + 1,
        }
        for place in range(operations)
    ]
    edges = [[place, place + 1] for place in range(operations - 1)]
    return {
        "resources": {"cycles": latency, "operations": sum(row["operations"] for row in listed)},
        "units": [{"name": name, "class": name.split("[")[0], "busy": 0} for name in UNITS],
        "per_operation": listed,
        "timeline": lanes,
        "graph": {"nodes": [], "edges": edges},
    }


def busy(bars: list[list[int]]) -> list[int]:
    """Cycles per lane, in thousandths."""
    sums = [0] * len(UNITS)
    for unit, start, end, _, fullness, _ in bars:
        sums[unit] += (end - start) * fullness
    return sums


@given(reports(), st.integers(1, 25))
@settings(max_examples=some(60), deadline=None)
def test_a_folded_lane_never_overlaps_and_keeps_its_busy_time(report: dict[str, Any], bars: int) -> None:
    latency = report["resources"]["cycles"]
    whole = timeline.timeline(report, start=0, end=latency, bars=10**6)
    folded = timeline.timeline(report, start=0, end=latency, bars=bars)
    assert sum(bar[5] for bar in folded["bars"]) == len(report["timeline"])
    # fullness is rounded down to a thousandth of a bar, and neighbours within a twentieth are joined
    for exact, drawn in zip(busy(whole["bars"]), busy(folded["bars"]), strict=True):
        assert abs(exact - drawn) <= latency * 51
    for unit in range(len(UNITS)):
        lane = [bar for bar in folded["bars"] if bar[0] == unit]
        assert len(lane) <= bars or all(bar[4] == 1000 for bar in lane)
        assert all(first[2] <= second[1] for first, second in pairwise(lane))


@given(reports(), st.integers(-5, 500), st.integers(-5, 500))
@settings(max_examples=some(40), deadline=None)
def test_any_stretch_may_be_asked_for(report: dict[str, Any], start: int, end: int) -> None:
    part = timeline.timeline(report, start=start, end=end, bars=10**6)
    assert 0 <= part["start"] < part["end"] <= report["resources"]["cycles"]
    asked = [run for run in report["timeline"] if run[1] < part["end"] and run[1] + run[2] > part["start"]]
    assert len(part["bars"]) == len(asked)


@given(reports())
@settings(max_examples=some(40), deadline=None)
def test_folding_keeps_every_operation_once_and_makes_no_cycle(report: dict[str, Any]) -> None:
    drawn = graph.graph(report)
    held = [row for node in drawn["nodes"] for row in node["rows"]]
    assert sorted(held) == list(range(len(report["per_operation"])))
    assert sum(node["cycles"] for node in drawn["nodes"]) == report["resources"]["cycles"]
    assert all(source < target for source, target, _ in drawn["edges"])


def test_a_long_chain_is_folded_until_it_can_be_read() -> None:
    listed = [
        {"index": n, "name": f"%{n}", "source": [f"layer{n}"], "kind": "map", "cycles": 0, "start": n, "end": n}
        for n in range(500)
    ]
    edges = [[n, n + 1] for n in range(499)]
    drawn = graph.graph({"per_operation": listed, "resources": {"cycles": 10}, "graph": {"edges": edges}})
    assert len(drawn["nodes"]) == graph.FOLD_ABOVE
    assert len(drawn["edges"]) == graph.FOLD_ABOVE - 1
    assert not drawn["can_unfold"]


@given(reports())
@settings(max_examples=some(30), deadline=None)
def test_the_csv_ends_with_the_sums_of_its_columns(report: dict[str, Any]) -> None:
    table = list(csv.DictReader(io.StringIO(rows.operations_csv(report))))
    for column in rows.SUMMED:
        assert sum(int(row[column]) for row in table[:-1]) == int(table[-1][column])


def test_no_cell_of_the_csv_is_a_formula() -> None:
    row = {
        **dict.fromkeys(rows.SUMMED, 0),
        "index": 0,
        "name": "=HYPERLINK(1)",
        "source": ["@x"],
        "kind": "map",
        "limiting": "",
        "start": None,
        "end": None,
    }
    text = rows.operations_csv({"per_operation": [row], "resources": {"cycles": 0, "operations": 0}})
    assert "'=HYPERLINK(1)" in text
    assert "'@x" in text


def test_live_bytes_end_at_nought_and_peak_where_most_is_alive() -> None:
    report = {
        "resources": {"cycles": 30, "storage": {"weights": 640, "state": 0, "activations": 960, "scratch": 0}},
        "memory": [
            {"buffer": "w", "kind": "constant", "address": 0, "size": 640, "first": 0, "last": 30},
            {"buffer": "a", "kind": "arena", "address": 640, "size": 320, "first": 0, "last": 20},
            {"buffer": "b", "kind": "arena", "address": 960, "size": 640, "first": 10, "last": 30},
        ],
    }
    drawn = memory.memory_map(report)
    assert drawn["peak"] == {"cycle": 10, "bytes": 960}
    assert drawn["live"][-1] == [30, 0]
    assert (drawn["base"], drawn["top"]) == (640, 1600)
    assert drawn["highest"] == 960


def test_the_highest_address_in_use_is_above_the_peak_where_space_is_free_between_buffers() -> None:
    report = {
        "resources": {"cycles": 30, "storage": {"weights": 640, "state": 0, "activations": 960, "scratch": 0}},
        "memory": [
            {"buffer": "a", "kind": "arena", "address": 640, "size": 320, "first": 0, "last": 10},
            {"buffer": "b", "kind": "arena", "address": 960, "size": 640, "first": 10, "last": 30},
        ],
    }
    drawn = memory.memory_map(report)
    assert (drawn["peak"]["bytes"], drawn["highest"]) == (640, 960)


def test_what_a_reshape_joins_stays_joined_though_the_reshape_is_not_drawn() -> None:
    listed = [
        {"index": place, "name": f"%{place}", "source": [], "kind": "map", "cycles": 1, "start": start}
        for place, start in enumerate([0, None, None, 3])
    ]
    report = {"resources": {"cycles": 4}, "per_operation": listed, "graph": {"edges": [[0, 1], [1, 2], [2, 3], [0, 3]]}}
    drawn = graph.graph(report)
    assert [node["rows"] for node in drawn["nodes"]] == [[0], [3]]
    assert drawn["edges"] == [[0, 1, 2]]
