"""Fills a fresh installation with demo data. A repeated run adds only missing data."""

from __future__ import annotations

import json
import os
import secrets
from argparse import ArgumentParser
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.utils import timezone

from apps.accounts.demo import People, demo_people
from apps.accounts.models import Organisation
from apps.demo.deals import DAY, LENGTH
from apps.demo.month import month_due
from apps.fleet.selectors import pool_slugs


class Command(BaseCommand):
    requires_system_checks = []  # as in apps/config/celery.py
    help = "Create the demo organisation with its people and demo data, and an administrator."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--migrate", action="store_true", help="apply migrations first")
        parser.add_argument("--write", type=Path, help="write address, sign-ins and tokens into this file")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["migrate"]:
            call_command("migrate", interactive=False, verbosity=1)
        now = timezone.now()
        path: Path | None = options["write"]
        known = json.loads(path.read_text()) if path and path.exists() else {}
        begun = _begun(now)
        people = demo_people(known=known, now=begun)
        is_month_due = month_due(people.organisation)
        for room in settings.ROOMS:
            if room == "compilation" and is_month_due:
                continue  # the month compiles the samples at the time at which it uses them
            if find_spec(f"apps.{room}.seed"):
                seed = import_module(f"apps.{room}.seed").seed
                seed(now=begun, organisation=people.organisation, owner=people.owner, admin=people.admin)
        if path:
            _write(path, people, is_month_due=is_month_due)


def _begun(now: datetime) -> datetime:
    # With DEMO_MONTH, a fresh installation needs room for a month of sample data.
    return now - LENGTH - DAY if settings.DEMO_MONTH and not Organisation.objects.exists() else now


def _write(path: Path, people: People, *, is_month_due: bool) -> None:
    document = {"url": settings.SITE_URL, **people.sign_in, "pools": pool_slugs(), "is_month_due": is_month_due}
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(document, file, indent=2)
        file.write("\n")
    draft.replace(path)
