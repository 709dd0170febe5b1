"""No module of the applications is reached by its own imports, at the top of a file or inside a function."""

from __future__ import annotations

import subprocess
import sys
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


STARTED = """
import gc, sys
from apps.config.celery import app
app.loader.import_default_modules()
loaded = {"scipy", "reportlab", "stripe"} & {name.partition(".")[0] for name in sys.modules}
print(sorted(loaded), gc.isenabled(), gc.get_freeze_count() > 10_000)
"""


def test_a_worker_starts_without_the_libraries_of_single_tasks_and_with_the_garbage_collector_on() -> None:
    said = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, text=True, check=True).stdout
    assert said == "['stripe'] True True\n"
