"""The structure of `compiler/` at two commits, side by side: `python -m benchmarks.structure BEFORE [AFTER] [--folder F]`

Without AFTER the files of the working tree are measured. A table of the rooms (folders, and `.` for the files beside
them) has files, lines, statements, the mean and the largest complexity by radon, and functions above 12 and above 10.
Below it are the import circles, and the loops over the rows of an access outside `ir/access.py`, which has methods for
what most of them ask.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from radon.complexity import cc_visit
from radon.visitors import Class
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

ROOT = Path(__file__).resolve().parent.parent
ACCESS = "ir/access.py"
HEADS = ("room", "files", "lines", "statements", "mean", "largest", "above 12", "above 10")
Sources = Mapping[str, str]
"""The text of every file by its path below the folder that is measured."""


@dataclass(frozen=True)
class Measure:
    """What is counted of some files. `complexities`: by function, closures included."""

    files: int
    lines: int
    statements: int
    complexities: tuple[int, ...]

    def cells(self) -> list[str]:
        """Return the columns of `HEADS` behind the name, as text."""
        c = self.complexities or (0,)
        figures = (self.files, self.lines, self.statements)
        above = (sum(one > limit for one in c) for limit in (12, 10))
        return [*(f"{n:,}" for n in figures), f"{sum(c) / len(c):.2f}", str(max(c)), *map(str, above)]


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", metavar="BEFORE", help="a commit")
    parser.add_argument("after", metavar="AFTER", nargs="?", help="a commit (default: the working tree)")
    parser.add_argument("--folder", default="compiler", help="the package that is measured (default: compiler)")
    chosen = parser.parse_args()
    try:
        before = at_commit(chosen.before, chosen.folder)
        after = at_commit(chosen.after, chosen.folder) if chosen.after else in_tree(chosen.folder)
    except ValueError as error:
        parser.error(str(error))
    print("\n".join(table(before, after)))
    for title, count in (
        ("import circles among rooms", lambda s: named(circles(by_room(imports(s, chosen.folder))))),
        ("import circles among modules of one room", lambda s: named(circles(inside(imports(s, chosen.folder))))),
        ("loops over the rows of an access", lambda s: str(len(scans(s)))),
    ):
        print(f"\n{title}: {count(before)} before, {count(after)} after")
    return 0


def at_commit(commit: str, folder: str) -> dict[str, str]:
    """Return the Python files of a folder at a commit. Raises ValueError for a commit or folder that is unknown."""
    run = subprocess.run(["git", "archive", commit, folder], cwd=ROOT, capture_output=True)
    if run.returncode:
        raise ValueError(f"there is no folder {folder} at commit {commit}; name a commit of this repository")
    with tarfile.open(fileobj=io.BytesIO(run.stdout)) as archive:
        found = {}
        for member in archive.getmembers():
            file = archive.extractfile(member) if member.name.endswith(".py") else None
            if file is not None:
                found[str(PurePosixPath(member.name).relative_to(folder))] = file.read().decode()
    return found


def in_tree(folder: str) -> dict[str, str]:
    """Return the Python files of a folder as they are on disk."""
    place = ROOT / folder
    return {path.relative_to(place).as_posix(): path.read_text("utf-8") for path in sorted(place.rglob("*.py"))}


def room_of(path: str) -> str:
    """Return the first folder of a path, or `.` for a file beside the rooms."""
    return path.split("/", maxsplit=1)[0] if "/" in path else "."


def measure(sources: Iterable[str]) -> Measure:
    """Count what a table shows of these files."""
    texts = list(sources)
    statements = sum(isinstance(node, ast.stmt) for text in texts for node in ast.walk(ast.parse(text)))
    complexities = [one for text in texts for one in _complexities(text)]
    return Measure(len(texts), sum(text.count("\n") for text in texts), statements, tuple(complexities))


def _complexities(text: str) -> Iterator[int]:
    for block in cc_visit(text):
        if not isinstance(block, Class):
            yield from (one.complexity for one in (block, *block.closures))


def table(before: Sources, after: Sources) -> list[str]:
    """Return the lines of a Markdown table: one for each room, before and after, and one for all."""
    rooms = [*sorted({room_of(path) for path in (*before, *after)}), ""]
    lines = [f"| {' | '.join(HEADS)} |", f"| --- |{' ---: |' * (len(HEADS) - 1)}"]
    for room in rooms:
        cells = []
        for sources in (before, after):
            chosen = [text for path, text in sources.items() if room in ("", room_of(path))]
            cells.append(measure(chosen).cells() if chosen else [])
        shown = zip(*(one or [""] * (len(HEADS) - 1) for one in cells), strict=True)
        lines.append(f"| {room or 'all'} | {' | '.join(_change(a, b) for a, b in shown)} |")
    return lines


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before or 'none'} → {after or 'none'}"


def imports(sources: Sources, package: str) -> set[tuple[str, str]]:
    """Return pairs of a file and a file that it imports, also inside functions, but not for types alone."""
    modules = {_module(path, package): path for path in sources}
    found = set()
    for path, text in sources.items():
        for node in _executed(ast.parse(text)):
            for name in _names(node):
                parent = name.rpartition(".")[0]
                target = modules.get(name) or modules.get(parent)
                if target and target != path:
                    found.add((path, target))
    return found


def _module(path: str, package: str) -> str:
    parts = [package, *path.removesuffix(".py").split("/")]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _executed(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those below `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            yield node
            yield from _executed(node)


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def by_room(edges: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the imports among rooms; files beside the rooms are none."""
    rooms = {(room_of(a), room_of(b)) for a, b in edges}
    return {(a, b) for a, b in rooms if a != b and "." not in (a, b)}


def inside(edges: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the imports within one room."""
    return {(a, b) for a, b in edges if room_of(a) == room_of(b)}


def circles(edges: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Return the sets of several nodes that reach each other: the strongly connected components."""
    pairs = list(edges)
    nodes = sorted({node for pair in pairs for node in pair})
    if not nodes:
        return []
    place = {node: n for n, node in enumerate(nodes)}
    rows, columns = ([place[pair[end]] for pair in pairs] for end in (0, 1))
    graph = coo_array((np.ones(len(pairs)), (rows, columns)), shape=(len(nodes), len(nodes)))
    _, labels = connected_components(graph, connection="strong")
    groups = [[node for node, label in zip(nodes, labels, strict=True) if label == one] for one in set(labels)]
    return sorted(group for group in groups if len(group) > 1)


def named(found: list[list[str]]) -> str:
    """Return how many circles there are, and the members of each."""
    members = "; ".join(", ".join(group) for group in found)
    return f"{len(found)} ({members})" if found else "none"


def scans(sources: Sources) -> list[str]:
    """Return where a loop or a comprehension walks over the rows of an access, as file:line, outside the class that has them."""
    return [
        f"{path}:{node.iter.lineno}"
        for path, text in sources.items()
        if path != ACCESS
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.For | ast.comprehension) and _has_rows(node.iter)
    ]


def _has_rows(expression: ast.AST) -> bool:
    """Whether an expression reads the attribute `matrix` itself: a processor's matrix unit is only asked for its fields."""
    nodes = list(ast.walk(expression))
    asked = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    return any(isinstance(node, ast.Attribute) and node.attr == "matrix" and id(node) not in asked for node in nodes)


if __name__ == "__main__":
    sys.exit(main())
