"""The table of the compiler's structure, on sources made for it and on this repository."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import structure
from bin.commands import ROOT

HIGH = "def high(a):\n    return " + " or ".join(f"a == {n}" for n in range(13)) + "\n"


def test_a_measure_counts_statements_functions_and_what_is_above_the_limits() -> None:
    inner = "class A:\n    def low(self):\n        def inner(a):\n            return a or 1\n        return inner\n"
    found = structure.measure([HIGH, inner])
    assert (found.files, found.lines, found.statements) == (2, 7, 7)
    assert sorted(found.complexities) == [1, 2, 13]
    assert found.cells() == ["2", "7", "7", "5.33", "13", "1", "1"]


def test_a_table_shows_rooms_that_are_new_gone_and_the_same() -> None:
    before = {"old/a.py": "x = 1\n", "same/b.py": "x = 1\n"}
    after = {"new/a.py": "x = 1\ny = 2\n", "same/b.py": "x = 1\n"}
    rows = {line.split(" | ")[0][2:]: line for line in structure.table(before, after)[2:]}
    assert list(rows) == ["new", "old", "same", "all"]
    assert rows["same"].startswith("| same | 1 | 1 | 1 | ")
    assert rows["new"].startswith("| new | none → 1 | none → 2 | none → 2 | ")
    assert rows["old"].startswith("| old | 1 → none | ")
    assert rows["all"].startswith("| all | 2 | 2 → 3 | 2 → 3 | ")


def test_circles_are_found_among_rooms_and_modules_but_not_through_types() -> None:
    sources = {
        "a/one.py": "from compiler.b import two\nfrom compiler.a.more import x\n",
        "a/more.py": "def late():\n    from compiler.a.one import y\n",
        "b/two.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from compiler.a import one\n",
    }
    edges = structure.imports(sources, "compiler")
    assert edges == {("a/one.py", "b/two.py"), ("a/one.py", "a/more.py"), ("a/more.py", "a/one.py")}
    assert structure.circles(structure.inside(edges)) == [["a/more.py", "a/one.py"]]
    assert structure.circles(structure.by_room(edges)) == []
    sources["b/two.py"] = "import compiler.a.one\n"
    assert structure.circles(structure.by_room(structure.imports(sources, "compiler"))) == [["a", "b"]]


@given(st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=20))
def test_a_circle_holds_exactly_the_nodes_that_reach_each_other(pairs: set[tuple[int, int]]) -> None:
    edges = {(f"{a}", f"{b}") for a, b in pairs if a != b}
    reach = {node: {node} for pair in edges for node in pair}
    for _ in reach:
        for a, b in edges:
            reach[a] |= reach[b]
    together = {tuple(sorted(b for b in reach if b in reach[a] and a in reach[b])) for a in reach}
    assert structure.circles(edges) == sorted(list(group) for group in together if len(group) > 1)


def test_loops_over_an_access_are_found_and_those_over_a_matrix_unit_are_not() -> None:
    source = (
        "for j, row in enumerate(o.access.matrix):\n    pass\n"
        "found = [i for i, c in enumerate(a.matrix[0]) if c]\n"
        "for dtype in target.matrix.tiles:\n    pass\n"
    )
    assert structure.scans({"tiling/a.py": source, structure.ACCESS: source}) == ["tiling/a.py:1", "tiling/a.py:3"]


def test_the_command_refuses_a_commit_that_is_unknown() -> None:
    with pytest.raises(ValueError, match="name a commit of this repository"):
        structure.at_commit("not-a-commit", "compiler")


def test_the_files_on_disk_are_those_of_the_repository() -> None:
    listed = subprocess.run(["git", "ls-files", "bin/*.py"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    assert {f"bin/{path}" for path in structure.in_tree("bin")} >= {name for name in listed if (ROOT / name).exists()}
