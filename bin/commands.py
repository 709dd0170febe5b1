"""The commands that need the virtual environment; `bin/dev.py` runs `python -m bin.commands COMMAND ...` in it."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from bin.services import Addresses, ServiceError, Services

ROOT = Path(__file__).resolve().parent.parent
# Everything that this checkout keeps between runs: data, logs, sign-ins.
VAR = Path(os.environ.get("TAKT_VAR") or ROOT / "var")


def main(arguments: Sequence[str]) -> int:
    """Run one command; returns its exit status."""
    command, rest = arguments[0], list(arguments[1:])
    try:
        return _command(command)(rest)
    except ServiceError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def _command(name: str) -> Callable[[list[str]], int]:
    """Return the function of a command. Only what it needs is imported, since `worker` runs on machines without tools."""
    if name in {"run", "dev", "worker"}:
        from bin import stack

        return {"run": lambda _: stack.run(), "dev": lambda _: stack.run(reload=True), "worker": stack.worker}[name]
    if name == "audit":
        from bin.audit import audit

        return lambda _: audit(ROOT)
    return {
        "manage": manage,
        "services": lambda _: services(),
        "lint": lambda _: lint(),
        "format": lambda _: format_code(),
        "typecheck": lambda _: typecheck(),
        "rooms": lambda _: _call([sys.executable, "-m", "bin.rooms"]),
        "test": test,
        "test-all": lambda _: test_all(),
        "screens": lambda rest: _call([sys.executable, "-m", "tests.screens", *rest]),
        "backup": lambda rest: _backup_or_restore("backup", rest),
        "restore": lambda rest: _backup_or_restore("restore", rest),
    }[name]


def _backup_or_restore(command: str, arguments: Sequence[str]) -> int:
    from bin import backup_commands

    if command == "backup":
        return backup_commands.backup_command(arguments, var=VAR)
    nowhere = Addresses("", "", "")  # they are known once the data are back
    return backup_commands.restore_command(arguments, root=ROOT, var=VAR, environment=lambda: environment(nowhere))


@contextmanager
def running_services() -> Iterator[Addresses]:
    """Yield the addresses to use: those of the environment, or of two servers under var/ while the block runs.

    DATABASE_URL is the application's, OWNER_DATABASE_URL the owner's if that is another role.
    """
    with held_services() as (addresses, _):
        yield addresses


@contextmanager
def held_services() -> Iterator[tuple[Addresses, Services | None]]:
    """Yield the addresses, and the two servers if they are ours."""
    database, redis = os.environ.get("DATABASE_URL"), os.environ.get("REDIS_URL")
    owner = os.environ.get("OWNER_DATABASE_URL") or database
    if database and owner and redis:
        yield Addresses(owner, redis, database), None
        return
    servers = Services(VAR)
    try:
        own = servers.acquire()
        found = Addresses(owner or own.database_url, redis or own.redis_url, database or own.application_url)
        yield found, servers
    finally:
        servers.release()


def environment(addresses: Addresses, *, owner: bool = False) -> dict[str, str]:
    """Return the environment of every process; only migrations work as the owner of the tables."""
    return {
        **os.environ,
        "DATABASE_URL": addresses.database_url if owner else addresses.application_url,
        "REDIS_URL": addresses.redis_url,
        "SECRET_KEY": os.environ.get("SECRET_KEY") or secret_key(),
        "DJANGO_SETTINGS_MODULE": "apps.config.settings",
        "LOG_FORMAT": os.environ.get("LOG_FORMAT", "text"),
        "BEAT_FILE": str(VAR / "beat"),
        "FREE_SPACE_FOLDERS": os.environ.get("FREE_SPACE_FOLDERS") or str(VAR),
        "MEDIA_ROOT": os.environ.get("MEDIA_ROOT") or str(VAR / "media"),
    }


def secret_key() -> str:
    """Return the secret key of this checkout, made once."""
    path = VAR / "secret_key"
    VAR.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_urlsafe(50))
    return path.read_text()


def manage(arguments: Sequence[str]) -> int:
    """Run manage.py with the servers up, as the owner of the tables."""
    with running_services() as addresses:
        return _call([sys.executable, "manage.py", *arguments], environment(addresses, owner=True))


def services() -> int:
    """Run the servers until Ctrl-C."""
    with running_services() as addresses:
        print(f"DATABASE_URL={addresses.application_url}\nOWNER_DATABASE_URL={addresses.database_url}")
        print(f"REDIS_URL={addresses.redis_url}", flush=True)
        with suppress(KeyboardInterrupt):
            signal.pause()
    return 0


def checks() -> list[list[str]]:
    """Return every check that needs no server, as commands."""
    return [
        [_tool("mypy")],
        [_tool("ruff"), "check", "--quiet", "."],
        [_tool("ruff"), "format", "--check", "--quiet", "."],
        [_tool("lint-imports")],
        [sys.executable, "-m", "bin.code_rules"],
        [sys.executable, "-W", "ignore", "manage.py", "makemigrations", "--check", "--dry-run"],
    ]


def _tool(name: str) -> str:
    """Return the path of an installed tool, of the version that requirements.lock names."""
    return str(Path(sys.executable).parent / name)


def format_code() -> int:
    """Sort imports, remove those that nothing uses, and format all Python code."""
    sorted_imports = _call([_tool("ruff"), "check", "--quiet", "--select", "I,F401", "--fix", "."])
    return _call([_tool("ruff"), "format", "."]) or sorted_imports


def typecheck() -> int:
    """Check types: the same as a bare `mypy`."""
    return _call([_tool("mypy")], without_servers())


def without_servers() -> dict[str, str]:
    """Return the environment of the checks."""
    return {**os.environ, "DJANGO_SETTINGS_MODULE": "bin.checked_settings"}


def lint() -> int:
    """Run all checks, so that one run shows everything."""
    failed = [check for check in checks() if _call(check, without_servers())]
    for check in failed:
        sys.stderr.write(f"failed: {' '.join(Path(part).name for part in check)}\n")
    return 1 if failed else 0


def test(arguments: Sequence[str]) -> int:
    """Run what continuous integration checks for every change; with arguments only pytest, with them."""
    if arguments:
        return _call([sys.executable, "-m", "pytest", *arguments])
    return _spread("-m", "not thorough")


def test_all() -> int:
    """Run every test, random ones with all their examples (tests/tiers.py)."""
    return _spread(env={**os.environ, "TAKT_TESTS": "whole"})


def _spread(*arguments: str, env: dict[str, str] | None = None) -> int:
    from bin import chromium

    problem = chromium.ensure()
    if problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    # The checks of `lint` are tests too (tests/config/test_lint.py). Files are begun in the order of tests/conftest.py. Three
    # workers for two cores: some tests wait, for a browser, a server or a clock.
    spread = ["-n", "3", "--dist", "loadfile", "--no-loadscope-reorder"]
    return _call([sys.executable, "-m", "pytest", *spread, "--durations", "40", *arguments], env)


def _call(command: Sequence[str | Path], env: dict[str, str] | None = None) -> int:
    return subprocess.run([str(part) for part in command], cwd=ROOT, env=env).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
