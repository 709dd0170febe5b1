"""Work in a process of its own that is killed (`kill -9`) at a fail point."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable
from pathlib import Path

from django.db import connections

from apps.accounts import failpoints
from apps.config.celery import app


def killed_at(point: str, work: Callable[[], object], *, marker: Path) -> bool:
    """Does the work in a forked process that is armed for `point`; True when it died there, False when it came to its end.

    The child has connections of its own, so that its open transaction dies with it as a worker's does. An exception in
    the child is printed and raised here as an AssertionError.
    """
    connections.close_all()
    child = os.fork()
    if child == 0:
        _work_and_exit(point, work, marker)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "the work failed by itself; its traceback is above"
    return False


def _work_and_exit(point: str, work: Callable[[], object], marker: Path) -> None:
    status = 1
    try:
        app._after_fork()  # what Celery itself calls in a new process: forget the connections of the parent
        failpoints.arm(point, marker)
        work()
        status = 0
    except BaseException:  # noqa: BLE001 - nothing of the child may run on in the copy of the test
        traceback.print_exc()
    finally:
        os._exit(status)
