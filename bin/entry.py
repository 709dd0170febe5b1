"""What `bin/dev.py` does once it runs on a Python that is new enough. Standard library only."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

USAGE = """usage: python3 bin/dev.py COMMAND [ARGUMENT ...]

  setup            create .venv, install the locked packages and the command takt, copy the browser's files
  run              start PostgreSQL, Valkey, web, workers and the scheduler; Ctrl-C ends all
  test [ARG ...]   the whole check: lint, types, contracts, migrations, tests (ARG goes to pytest, and only pytest runs)
  screens          pictures of every page at 1440 and 390 pixels and dark, into var/screens/; `screens readme` takes those of
                   the README again
  lint             ruff, mypy, import-linter, migrations up to date
  audit            known faults of the locked dependencies, where a database of advisories can be reached
  lock             resolve pyproject.toml again into requirements.lock, and package.json into package-lock.json
  worker --pool X  one worker for the pool X of servers elsewhere: set DATABASE_URL, REDIS_URL and STORAGE_URL
  backup FOLDER    back up database and storage, with every moment since the backup before; --every SECONDS goes on
  restore FOLDER   bring a backup back and check every chain and account; --to TIME for an earlier moment
  manage ARG ...   manage.py against the servers under var/
  services         start PostgreSQL and Valkey under var/ and print their addresses; Ctrl-C ends them
"""

ALONE = ("setup", "run", "lint", "lock", "audit", "services")  # take no argument
COMMANDS = (*ALONE, "test", "screens", "worker", "backup", "restore", "manage")
HELP = ("help", "-h", "--help")


def main(arguments: list[str]) -> int:  # noqa: RET503 - execv does not come back
    """Set up, then hand over to `bin.commands` inside the virtual environment."""
    if arguments[:1] and (
        arguments[0] in HELP or (arguments[0] in (*ALONE, "worker") and set(arguments[1:]) & set(HELP))
    ):
        sys.stdout.write(USAGE)
        return 0
    if not arguments or arguments[0] not in COMMANDS:
        sys.stderr.write(USAGE)
        return 2
    if arguments[0] in ALONE and arguments[1:]:
        sys.stderr.write(f"{arguments[0]} takes no argument, not {' '.join(arguments[1:])!r}\n")
        return 2

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
