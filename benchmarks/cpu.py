"""Processor time of a process with all that it started, from /proc."""

from __future__ import annotations

import os
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
PARENT, SPENT = 1, slice(11, 15)  # fields behind the name: of the process itself and of children that it has waited for


def spent(root: int) -> float:
    """Seconds that a process, its children and theirs have used so far."""
    fields = {int(one.name): _fields(one) for one in Path("/proc").iterdir() if one.name.isdigit()}
    family, count = {root}, 0
    while len(family) > count:
        count = len(family)
        family |= {pid for pid, told in fields.items() if told and int(told[PARENT]) in family}
    return sum(sum(map(int, fields[pid][SPENT])) for pid in family if fields.get(pid)) / TICK


def database() -> int:
    """The process of the PostgreSQL server that this process is connected to."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        backend = int(cursor.fetchone()[0])
    return int(_fields(Path(f"/proc/{backend}"))[PARENT])


def _fields(process: Path) -> list[str]:
    """What `stat` says behind the name in brackets; nothing of a process that has ended."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
