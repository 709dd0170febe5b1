"""`takt verify` of a whole month where nothing but onnx and NumPy is installed: `python -m benchmarks.offline [ITEMS]`.

Builds the wheel, installs it into a fresh environment, produces the month of benchmarks.month, and lets the installed command
recompute its invoice: every line, every credit, from models, price book and invoice alone, without a network. Prints the
packages of that environment and the seconds per model (acceptance: under 5 s); ends with status 1 when something differs or
takes longer.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from benchmarks.arguments import counts

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 5.0  # seconds for each model


def main(arguments: list[str]) -> int:
    (items,) = counts("offline", __doc__, arguments, items=48)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        takt = _installed(folder)
        papers = folder / "papers"
        subprocess.run(
            [sys.executable, "-m", "benchmarks.month", str(items), "--keep", str(papers)], cwd=ROOT, check=True
        )
        return _verify(takt, papers)


def _installed(folder: Path) -> Path:
    """The command in an environment of its own, and what else is there."""
    uv = ROOT / ".venv" / "bin" / "uv"
    subprocess.run([uv, "build", "--wheel", "--quiet", "--out-dir", folder, ROOT], check=True)
    (wheel,) = folder.glob("takt-*.whl")
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, wheel], check=True)
    found = subprocess.run([uv, "pip", "list", "--python", python, "--format", "json"], check=True, capture_output=True)
    names = sorted(one["name"] for one in json.loads(found.stdout))
    print(f"installed: {wheel.name}; the environment holds {', '.join(names)}")
    return folder / "venv" / "bin" / "takt"


def _verify(takt: Path, papers: Path) -> int:
    """The whole invoice once, then each model for itself, timed."""
    models = sorted(papers.glob("*.onnx"))
    document = [papers / "invoice.json", papers / "book.json"]
    whole = _run(takt, papers, [*document, *models])
    print(
        f"{len(whole['checked'])} statements checked, {len(whole['partial'])} in part; all lines and credits verified"
    )
    is_right = bool(whole["verified"])
    for model in models:
        began, used = time.perf_counter(), _processor_seconds()
        _run(takt, papers, [*document, model])
        seconds = time.perf_counter() - began
        print(f"  {model.stem}: {seconds:.2f} s, {_processor_seconds() - used:.2f} s of the processor")
        is_right = is_right and seconds < LIMIT
    return 0 if is_right else 1


def _processor_seconds() -> float:
    """What ended children have used."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _run(takt: Path, papers: Path, files: list[Path]) -> dict[str, list[str]]:
    """The command's answer; it runs with an empty environment, elsewhere than the sources."""
    command = [str(takt), "verify", "--json", *map(str, files)]
    done = subprocess.run(command, cwd=papers, env={"PATH": "/nowhere"}, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        raise SystemExit(f"takt verify ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    answer: dict[str, list[str]] = json.loads(done.stdout)
    return answer


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
