"""Creates a month of sample data for the demo organisation. A repeated run continues where the last run stopped."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.utils import timezone

from apps.demo.month import demo_organisation, month_due, month_make

LOCK = 7_236_150  # of the database: two runs at once would do the same steps


class Command(BaseCommand):
    requires_system_checks = []  # as in apps/config/celery.py
    help = (
        "Create a month of sample data for the demo organisation (DEMO_MONTH). Does nothing if the data already exist."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        organisation = demo_organisation()
        if organisation is None:
            raise CommandError("There is no demo organisation: run `manage.py seed_demo` first.")
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        if not month_due(organisation):
            self.stdout.write(
                "Nothing to do: DEMO_MONTH is off, the sample data already exist, or the organisation already has its own "
                "history."
            )
            return
        steps = month_make(organisation=organisation, now=timezone.now())
        self.stdout.write(f"{steps} steps of sample data were made.")
