"""Processes that do something at once, each as a worker of its own would.

They are forked from a fresh interpreter, never from the tests' own: that one has threads (xdist's, a browser's, a
server's), and a lock that a thread held at the fork stays locked in the child for ever. Each answers over a pipe of its
own; one that dies is told by its exit code at once, one that hangs says where.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.db import connection

ROOT = Path(__file__).resolve().parents[2]
HANGS = 60  # seconds: each prints its stack then, and ends
LOCKED = "20s"  # the database names the statement that waits for a lock so long


def at_once(work: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
    """What `work`, a function of a module, answers to each of the arguments, all in processes of their own at once.

    They commit to the test's own database. Raises AssertionError with what every process said when one of them raised,
    was killed or hung.
    """
    database = connection.settings_dict
    host = quote(str(database["HOST"]), safe="")
    environment = {
        **os.environ,
        "DATABASE_URL": f"postgres://{database['USER']}@{host}/{database['NAME']}",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.ledger.crew"],
        input=pickle.dumps((work, list(arguments))),
        capture_output=True,
        cwd=ROOT,
        env=environment,
        timeout=2 * HANGS,
    )
    assert done.returncode == 0, done.stderr.decode()
    answers: list[Any] = pickle.loads(done.stdout)  # noqa: S301 - our own child's
    return answers


def _fork(work: Callable[..., Any], given: tuple[Any, ...]) -> tuple[int, int]:
    """A process that does its work; its number, and where its answer is read."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    status = 1
    try:
        faulthandler.dump_traceback_later(HANGS, exit=True)
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = %s", [LOCKED])
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(work(*given), pipe)
        status = 0
    except BaseException:  # noqa: BLE001 - a process must say what broke it
        traceback.print_exc()
    finally:
        os._exit(status)


def _run() -> int:
    """Fork all, then gather; 1 when one of them failed."""
    work, arguments = pickle.loads(sys.stdin.buffer.read())  # noqa: S301 - our parent's
    crew = [_fork(work, given) for given in arguments]
    answers = []
    for number, (child, reading) in enumerate(crew):
        with os.fdopen(reading, "rb") as pipe:
            answer = pipe.read()
        _, status = os.waitpid(child, 0)
        if status:
            print(f"process {number} ended with {os.waitstatus_to_exitcode(status)}", file=sys.stderr)
        else:
            answers.append(pickle.loads(answer))  # noqa: S301 - our own child's
    if len(answers) < len(crew):
        return 1
    sys.stdout.buffer.write(pickle.dumps(answers))
    return 0


if __name__ == "__main__":
    import django

    django.setup()
    sys.exit(_run())
