"""Private servers for a measurement: PostgreSQL and Valkey of its own, Django set up, the schema migrated."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bin.services import Services


@contextmanager
def house(kept: Path | None = None) -> Iterator[None]:
    """Everything is gone afterwards, unless it is in a folder that is to be kept. PostgreSQL writes durably, as it does in
    production."""
    folder = kept or Path(tempfile.mkdtemp(prefix="takt-bench-", dir="/tmp"))
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)  # PostgreSQL may run as another account
    services = Services(folder, durable=True)
    try:
        addresses = services.acquire()
        os.environ |= {
            "DATABASE_URL": addresses.database_url,
            "REDIS_URL": addresses.redis_url,
            "SECRET_KEY": "a key of this run alone",
            "MEDIA_ROOT": str(folder / "media"),
            "LOG_LEVEL": "WARNING",
            "LOG_FORMAT": "text",
            "STATIC_HASHED": "0",
            "NEWCOMER_CREDIT": "none",  # what is measured is not the limits of buying
            "POOL_SHARE": "1",
            "DJANGO_SETTINGS_MODULE": "apps.config.settings",
        }
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        yield
    finally:
        if kept:
            services.release()
        else:
            services.destroy()
