"""No module of the applications is reached by its own imports, at the top of a file or inside a function."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp
import pytest


def circle(graph: grimp.ImportGraph) -> list[str]:
    """Return the modules of one import circle, empty if there is none."""
    sorter = TopologicalSorter({module: graph.find_modules_directly_imported_by(module) for module in graph.modules})
    try:
        sorter.prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circle(grimp.build_graph("apps")) == []


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("apps.dispatch.services.ending", "apps.dispatch.services.jobs"),
        ("apps.dispatch.services.jobs", "apps.dispatch.services"),  # a package, from one of its own modules
    ],
)
def test_a_circle_is_found(importer: str, imported: str) -> None:
    graph = grimp.build_graph("apps")
    graph.add_import(importer=importer, imported=imported)
    assert {importer, imported} <= set(circle(graph))
