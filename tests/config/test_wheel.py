"""The wheel: the compiler, the rating and the command, for a machine with onnx and NumPy and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from django.conf import settings

ROOT = Path(settings.BASE_DIR)
# What the wheel must work without: everything that is not a dependency of it.
SERVER = ("django", "celery", "redis", "psycopg2", "ninja", "structlog", "onnxruntime", "scipy", "reportlab", "pytest")
# What `takt plan` takes of the rooms: modules that know no Django (ADR 0089).
PURE = (
    "apps/fleet/document/",
    "apps/planner/combination_text.py",
    "apps/planner/hosting/",
    "apps/planner/metrics.py",
    "apps/planner/score_format.py",
    "apps/planner/scores.py",
    "apps/planner/solver/",
    "apps/pricing/windows.py",
    "apps/registry/binomial.py",
    "apps/registry/confidence.py",
    "apps/registry/feeds/",
    "apps/registry/labelled.py",
    "apps/reports/forecasting/",
    "apps/timetable/admission/",
    "apps/timetable/instants.py",
)
COMMAND = """
import sys
for name in {server!r}:
    sys.modules[name] = None
sys.path.insert(0, {wheel!r})
from apps.cli.main import main
sys.exit(main({arguments!r}))
"""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the sources and unpacked."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    for name in ("compiler", "apps", "takt"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    build = ["build", "--wheel", "--no-build-isolation", "--no-config", "--offline", "--quiet", "--out-dir", built]
    uv = [Path(sys.executable).parent / "uv", *build, "--python", sys.executable, source]
    subprocess.run(uv, check=True, capture_output=True)
    (wheel,) = built.glob("takt-*.whl")
    folder = tmp_path_factory.mktemp("unpacked")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


def test_it_holds_the_compiler_the_rating_and_the_command_and_nothing_of_the_server(unpacked: Path) -> None:
    names = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    inside = {name for name in names if not name.startswith("takt-")}
    rooms = ("compiler/", "apps/cli/", "apps/pricing/rating/", "takt/", *PURE)
    others = {name for name in inside if not name.startswith(rooms)}
    empty = {f"apps/{room}__init__.py" for room in ("", "planner/", "pricing/", "registry/", "timetable/")}
    assert others == {*empty, "apps/figures.py", "apps/currencies.py", "apps/measurements.py"}
    assert all((unpacked / name).read_bytes() == b"" for name in empty)
    assert {
        "compiler/__init__.py",
        "compiler/targets/lpu.toml",
        "apps/cli/main.py",
        "takt/client.py",
        "takt/py.typed",
        "compiler/py.typed",
    } <= inside


def test_it_asks_for_onnx_and_numpy_alone() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {line.split(">")[0] for line in project["dependencies"]} == {"ml-dtypes", "numpy", "onnx"}


def test_its_command_starts_where_no_server_package_is_installed(unpacked: Path) -> None:
    code = COMMAND.format(server=SERVER, wheel=str(unpacked), arguments=["--help"])
    outcome = subprocess.run(
        [sys.executable, "-I", "-c", code], cwd=unpacked, capture_output=True, text=True, check=False
    )
    assert outcome.returncode == 0, outcome.stderr
    assert "verify" in outcome.stdout


def test_it_plans_with_onnx_and_numpy_alone(unpacked: Path) -> None:
    code = COMMAND.format(server=SERVER, wheel=str(unpacked), arguments=["plan", str(ROOT / "samples" / "task.toml")])
    outcome = subprocess.run(
        [sys.executable, "-I", "-c", code], cwd=unpacked, capture_output=True, text=True, check=False
    )
    assert outcome.returncode == 0, outcome.stderr
    assert "Choice: " in outcome.stdout
