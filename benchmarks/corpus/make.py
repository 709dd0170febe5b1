"""Fetches and exports the corpus into `var`, the export in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.corpus.listed import Model
from benchmarks.corpus.sources import DIGESTS, FOLDER, data_of, differs, digests, path_of
from bin.models import ROOT, FetchError

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
VENV = FOLDER / "venv"
HEAD = """# SHA-256 of the exported models, as `python -m benchmarks.corpus make --lock` wrote them. Another processor may draw
# weights that differ in their last bits; `run` then says that a file differs, and its figures may differ a little too.
"""


def make(wanted: Sequence[Model], *, lock: bool) -> int:
    """Fetch and export what is not there; ``lock``: write digests of all exports. Answers the exit status."""
    failed = 0
    for model in wanted:
        if model.source != "exported":
            try:
                data_of(model)
            except FetchError as error:
                failed += 1
                print(f"{model.name}: {error}", file=sys.stderr)
    missing = [m for m in wanted if m.source == "exported" and (not path_of(m).exists() or (not lock and differs(m)))]
    if missing:
        environment()
    for model in missing:
        failed += _export(model)
    if lock:
        _lock(wanted)
    ready = len(wanted) - failed
    print(f"{ready} of {len(wanted)} models are ready, {len(missing)} of them exported now")
    for model in wanted:
        if differs(model):
            print(f"{model.name}: the file is another than that of {DIGESTS.name}")
    return 1 if failed else 0


def environment() -> None:
    """The virtual environment of `requirements.txt`; made anew when that file changes."""
    done = VENV / "requirements.txt"
    if done.exists() and done.read_bytes() == REQUIREMENTS.read_bytes():
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
    subprocess.run([_python(), "-m", "pip", "install", "--quiet", "-r", str(REQUIREMENTS)], check=True)
    done.write_bytes(REQUIREMENTS.read_bytes())


def _python() -> str:
    return str(VENV / "bin" / "python")


def _export(model: Model) -> bool:
    """In a process of its own, which gives its memory back; answers whether it failed."""
    command = [_python(), "-m", "benchmarks.corpus.export", str(FOLDER), model.name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    said = [line for line in done.stdout.splitlines() if line.startswith(f"{model.name} ")]
    print(
        said[-1] if said else f"{model.name} failed: {(done.stderr.strip().splitlines() or ['no reason'])[-1]}",
        flush=True,
    )
    return done.returncode != 0


def _lock(wanted: Sequence[Model]) -> None:
    import hashlib

    known = digests()
    for model in wanted:
        if path_of(model).exists():
            known[model.name] = hashlib.sha256(path_of(model).read_bytes()).hexdigest()
    lines = [f'{name} = "{digest}"\n' for name, digest in sorted(known.items())]
    DIGESTS.write_text(HEAD + "".join(lines), encoding="utf-8")
