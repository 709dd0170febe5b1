"""The demo organisation before and after its month of sample data is made, which takes 20 seconds: few tests ask for it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.core.management import call_command
from pytest_django import Settings as SettingsWrapper

from apps.accounts.models import Organisation
from apps.demo.month import month_make

NOW = datetime(2026, 11, 27, 14, 37, 12, tzinfo=UTC)


@pytest.fixture
def seeded(db: None, settings: SettingsWrapper) -> Organisation:
    """The demo organisation as a fresh installation has it, before its month."""
    settings.DEMO_MONTH = True
    call_command("seed_demo")
    return Organisation.objects.get()


@pytest.fixture
def sampled(seeded: Organisation) -> Organisation:
    """The demo organisation with its month."""
    month_make(organisation=seeded, now=NOW)
    seeded.refresh_from_db()
    return seeded
