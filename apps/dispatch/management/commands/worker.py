"""`manage.py worker --pool lpu-a`: makes this machine a host of a pool.

The process needs DATABASE_URL, REDIS_URL and STORAGE_URL. It stores nothing on this machine.
"""

from __future__ import annotations

import os
import socket
import threading
from argparse import ArgumentParser
from typing import Any

import structlog
from celery import current_app
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection
from django.utils import timezone

from apps.accounts.problems import Problem
from apps.fleet.selectors import devices_of, pool_get
from apps.fleet.services import workerhost_seen

BEAT_SECONDS = 5.0

log = structlog.get_logger("worker")


class Command(BaseCommand):
    requires_system_checks = []  # as in apps/config/celery.py
    help = "Run a pool's leases on this machine. By default, one lease per device of the pool can run at the same time."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--pool", required=True, help="the pool's slug, for example lpu-a")
        parser.add_argument("--concurrency", type=int, default=None)
        parser.add_argument("--name", default=None, help="the name of this host on the fleet page")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            pool = pool_get(options["pool"])
        except Problem as problem:
            raise CommandError(problem.detail) from problem
        concurrency = options["concurrency"] or max(1, len(devices_of(pool)))
        name = options["name"] or f"{socket.gethostname()}-{os.getpid()}"
        connection.close()
        beat = threading.Thread(target=heartbeat, args=(name, pool.slug, concurrency), daemon=True, name="heartbeat")
        beat.start()
        current_app.worker_main(
            [
                "worker",
                "--queues",
                pool.queue,
                "--concurrency",
                str(concurrency),
                "--hostname",
                f"{name}@%h",
                "--loglevel",
                "WARNING",
                "--without-gossip",
                "--without-mingle",
            ]
        )


def heartbeat(name: str, pool_slug: str, concurrency: int) -> None:
    """Send a heartbeat for this host every few seconds while the process runs."""
    is_start, rest = True, threading.Event()
    while True:
        try:
            workerhost_seen(
                name=name, pool_slug=pool_slug, concurrency=concurrency, is_start=is_start, now=timezone.now()
            )
            is_start = False
        except (DatabaseError, Problem) as error:
            log.warning("heartbeat failed", error=str(error))
        finally:
            connection.close()
        rest.wait(BEAT_SECONDS)
