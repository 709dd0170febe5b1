"""Restore drill: backup, loss of the machine, restore, chain verified, difference 0: `python -m benchmarks.restore`.

A month of real leases is sold, run and invoiced on servers of its own. Then `bin/dev.py backup` runs, work goes on, it runs
again, and more work is done that no backup has. The servers are killed, everything under the data folder is deleted, and
`bin/dev.py restore` brings it back: to the last moment, to a moment between the two backups, and once more after work on the
restored data. Each time every row of every table must be as it was then, every chain must verify, every account reconcile and
every file be there. Prints what each step took; ends with status 1 at the first difference.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from bin.services import Services, _pid_of

ROOT = Path(__file__).resolve().parents[1]
WHOLE = re.compile(r"(\d+) organisations, ([\d,]+) transactions, 0 differences; ([\d,]+) files, 0 missing or altered")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.restore", description=__doc__)
    parser.add_argument("items", type=int, nargs="?", default=48, help="executions bought by each contract")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="takt-drill-", dir="/tmp"))
    folder.chmod(0o755)  # PostgreSQL may run as another account
    drill = Drill(folder)
    try:
        drill.run(options.items)
    finally:
        drill.machine_lose()
        shutil.rmtree(folder)
    return 0


class Drill:
    """One machine, its backup, and what its tables held when."""

    def __init__(self, folder: Path) -> None:
        self.var, self.kept = folder / "var", folder / "backup"
        self.var.mkdir()
        self.services = Services(self.var)
        os.environ |= {"NEWCOMER_CREDIT": "none", "POOL_SHARE": "1"}  # what is drilled is not the limits of buying
        self.environment = {**os.environ, "TAKT_VAR": str(self.var), "LOG_LEVEL": "WARNING"}
        for name in ("DATABASE_URL", "REDIS_URL", "STORAGE_URL", "MEDIA_ROOT"):
            self.environment.pop(name, None)

    def run(self, items: int) -> None:
        """The whole of it. Raises AssertionError."""
        self._open()
        from tests.cast import assemble
        from tests.money.month import month_run
        from tests.upgrade.databases import contents

        cast = assemble()
        month_run(cast, items=items)
        self._backup("first backup")
        self._work(cast, "between")
        between, at = contents(), datetime.now(UTC)
        time.sleep(0.05)
        self._work(cast, "later")
        self._backup("second backup")
        last = contents()
        self._work(cast, "lost")
        self._restored("last moment", last)
        self._restored(f"moment {at:%H:%M:%S.%f}", between, "--to", at.isoformat())
        self._work(cast, "afterwards")
        self._backup("backup of the restored machine")
        self._restored("last moment again", contents())

    def _open(self) -> None:
        addresses = self.services.acquire()
        os.environ |= {
            "DATABASE_URL": addresses.database_url,
            "REDIS_URL": addresses.redis_url,
            "SECRET_KEY": "a key of this run alone",
            "MEDIA_ROOT": str(self.var / "media"),
            "LOG_LEVEL": "WARNING",
            "LOG_FORMAT": "text",
            "STATIC_HASHED": "0",
            "DJANGO_SETTINGS_MODULE": "apps.config.settings",
        }
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)

    def _work(self, cast: object, name: str) -> None:
        """A model with its file, a credit with its postings, and an entry in the chain."""
        from decimal import Decimal

        from django.utils import timezone

        from apps.invoicing.services import grant_create
        from tests.cast import Cast
        from tests.registry.helpers import version_of
        from tests.upgrade.release_0_1_0.things import choosing_model

        assert isinstance(cast, Cast)
        version_of(cast, choosing_model(name), name)
        grant_create(
            organisation=cast.organisation,
            amount=Decimal(1),
            currency="EUR",
            reason=name,
            expires_at=None,
            idempotency_key=name,
            actor=cast.admin,
            now=timezone.now(),
        )

    def machine_lose(self) -> None:
        """Both servers killed, and everything that they and we had on this disk is gone."""
        for path in (
            self.services.folder / "postgres" / "postmaster.pid",
            self.services.folder / "valkey" / "valkey.pid",
        ):
            if pid := _pid_of(path):
                os.kill(pid, signal.SIGKILL)
        time.sleep(1.0)  # their children end when they see it
        shutil.rmtree(self.services.folder, ignore_errors=True)
        shutil.rmtree(self.services.sockets, ignore_errors=True)
        shutil.rmtree(self.var, ignore_errors=True)

    def _backup(self, what: str) -> None:
        self._timed(what, lambda: self._command("backup", str(self.kept)))

    def _restored(self, what: str, was: dict[str, str], *options: str) -> None:
        from django.db import connection

        from tests.upgrade.databases import contents, differences

        connection.close()
        self.machine_lose()
        said = self._timed(f"restore to the {what}", lambda: self._command("restore", str(self.kept), *options))
        found = WHOLE.search(said)
        assert found, said
        self.services = Services(self.var)
        self.services.acquire()
        now = contents()
        other = differences(now, was)
        assert not other, other
        print(
            f"  {len(now)} tables row for row as then; {found[2]} transactions chained and reconciled, difference 0; "
            f"{found[3]} files there"
        )

    def _command(self, *words: str) -> str:
        outcome = subprocess.run(
            [sys.executable, "bin/dev.py", *words], cwd=ROOT, env=self.environment, capture_output=True, text=True
        )
        assert outcome.returncode == 0, f"{' '.join(words)}: {outcome.stdout}{outcome.stderr}"
        return outcome.stdout

    def _timed(self, what: str, act: Callable[[], str]) -> str:
        began = time.monotonic()
        said = act()
        print(f"{what}: {time.monotonic() - began:.1f} s", flush=True)
        return said


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
