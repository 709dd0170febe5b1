"""What `bin/dev.py` does once it runs on a Python that is new enough. Standard library only."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Every command and one line about it. Those of the first group take no argument; `make COMMAND` runs them too.
ALONE = {
    "run": "start PostgreSQL, Valkey, web, workers and the scheduler; Ctrl-C ends all",
    "dev": "the same, and restart web and workers when their code changes",
    "test": "run the checks of every change: lint, types, contracts, migrations, tests",
    "test-all": "run them and the thorough tests, random ones with all their examples: before a release",
    "format": "sort imports and format all Python code",
    "lint": "check style, types, complexity, import contracts and migrations",
    "typecheck": "check types alone (mypy)",
    "rooms": "draw the picture of the rooms again, into docs/engineering/rooms.svg",
    "screens": "take pictures of every page at 1440 and 390 pixels and dark, into var/screens/",
    "setup": "create .venv, install the locked packages and the command takt, copy the browser's files",
    "lock": "resolve requirements.lock and package-lock.json again",
    "audit": "list known faults of the locked packages, where a database of advisories can be reached",
    "services": "start PostgreSQL and Valkey under var/ and print their addresses; Ctrl-C ends them",
}
WITH_ARGUMENTS = {
    "test ARG ...": "run pytest with these arguments, such as tests/sales -k quote",
    "screens readme": "take the pictures of the README again",
    "manage ARG ...": "run manage.py against the servers under var/",
    "backup FOLDER": "back up database and storage; --every SECONDS repeats it",
    "restore FOLDER": "restore a backup and check every chain and account; --to TIME restores an earlier moment",
    "worker --pool X": "run one worker for the pool X of servers elsewhere: set DATABASE_URL, REDIS_URL, STORAGE_URL",
}
COMMANDS = {*ALONE, *(usage.split()[0] for usage in WITH_ARGUMENTS)}
TAKES_ARGUMENTS = {usage.split()[0] for usage in WITH_ARGUMENTS}
HELP = ("help", "-h", "--help")


def usage() -> str:
    """Return every command with its line, for `make help` and for mistakes."""
    lines = ["usage: make COMMAND, or python3 bin/dev.py COMMAND", ""]
    lines += [f"  {name:<16} {line}" for name, line in ALONE.items()]
    lines += ["", "with arguments: python3 bin/dev.py COMMAND ARGUMENT ...", ""]
    lines += [f"  {name:<16} {line}" for name, line in WITH_ARGUMENTS.items()]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:  # noqa: RET503 - execv never returns
    """Set up, then hand over to `bin.commands` inside the virtual environment."""
    status = _answered(arguments)
    if status is not None:
        return status

    from bin import install

    try:
        if arguments[0] == "lock":
            install.lock()
            return 0
        seconds = install.everything(pages=arguments[0] not in {"worker", "backup", "restore"})
    except install.SetupError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if arguments[0] == "setup":
        print(f"ready ({seconds:.0f} s)")
        return 0
    os.environ["TAKT_SETUP_SECONDS"] = f"{seconds:.1f}"
    os.environ["TAKT_CWD"] = os.getcwd()  # noqa: PTH109 - an argument may name a file from there
    os.chdir(ROOT)
    os.execv(str(install.PYTHON), [str(install.PYTHON), "-m", "bin.commands", *arguments])


def _answered(arguments: list[str]) -> int | None:
    """Answer a request for help or a mistake: return the exit status, or None when there is a command to run."""
    if not arguments or arguments[0] not in {*COMMANDS, *HELP}:
        sys.stderr.write(usage())
        return 2
    command, rest = arguments[0], arguments[1:]
    takes_none = command not in TAKES_ARGUMENTS
    if command in HELP or ((takes_none or command == "worker") and set(rest) & set(HELP)):
        sys.stdout.write(usage())
        return 0
    if takes_none and rest:
        sys.stderr.write(f"{command} takes no argument, not {' '.join(rest)!r}\n")
        return 2
    return None
