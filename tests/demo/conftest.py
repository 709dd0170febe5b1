"""The demo organisation before its month of sample data and after. The month takes 20 seconds, so one test makes it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone
from pytest_django import Settings as SettingsWrapper

from apps.accounts.models import Organisation
from apps.demo import month as months
from apps.demo.deals import DEALS, Deal, deals
from apps.demo.models import SampleStep
from apps.demo.month import month_due, month_make
from apps.dispatch.services import leases_offer_due
from apps.sales.models import Contract, ContractState
from apps.sales.services import contracts_close_due
from tests.tiers import PART, WHOLE

NOW = datetime(2026, 11, 27, 14, 37, 12, tzinfo=UTC)


@pytest.fixture
def seeded(db: None, settings: SettingsWrapper) -> Organisation:
    """The demo organisation as a fresh installation has it, before its month."""
    settings.DEMO_MONTH = True
    call_command("seed_demo")
    return Organisation.objects.get()


@pytest.fixture
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """For every change, each contract has a quarter of its hours, and models are compiled only for the batch sizes that are
    bought; days, steps and kinds of document stay the same. The whole makes the month as it is shipped."""
    if WHOLE:
        return

    def quieter(**instants: datetime) -> list[Deal]:
        return [replace(deal, hours=deal.hours // PART) for deal in deals(**instants)]

    monkeypatch.setattr(months, "deals", quieter)
    monkeypatch.setattr(months, "BATCHES", sorted({deal.batch for deal in DEALS if deal.model == "digits-batch"}))


@pytest.fixture
def cut_off(seeded: Organisation, _quiet: None, monkeypatch: pytest.MonkeyPatch) -> Organisation:
    """The demo organisation with its month, whose making was killed three times, once within a step.

    Between two runs the scheduler's sweeps find nothing to do.
    """
    for fatal in ("buy Incoming goods, urgent", "run 2026-11-12", "last invoice"):
        _killed_at(fatal, seeded, monkeypatch)
        assert fatal not in set(SampleStep.objects.values_list("name", flat=True))
        assert month_due(seeded)
        before = Contract.objects.filter(state=ContractState.ACTIVE).count()
        contracts_close_due(now=timezone.now())
        assert Contract.objects.filter(state=ContractState.ACTIVE).count() == before
        assert leases_offer_due(now=timezone.now()) == 0
    month_make(organisation=seeded, now=timezone.now())  # a later start changes no instant
    seeded.refresh_from_db()
    return seeded


def _killed_at(name: str, organisation: Organisation, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ends after the work of a step and before its commit."""
    steps = months.Month.steps

    def fatal(month: months.Month) -> list[months.Step]:
        def die(at: Any, act: Any) -> None:
            act(at)
            raise KeyboardInterrupt

        found = steps(month)
        return [
            months.Step(one.at, one.name, lambda at, act=one.act: die(at, act)) if one.name == name else one  # type: ignore[misc]
            for one in found
        ]

    with monkeypatch.context() as patched:
        patched.setattr(months.Month, "steps", fatal)
        with pytest.raises(KeyboardInterrupt):
            month_make(organisation=organisation, now=NOW)
    organisation.refresh_from_db()
