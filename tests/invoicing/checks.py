"""A check of a customer's history as a worker makes it."""

from __future__ import annotations

from typing import Protocol

from django.utils import timezone

from apps.accounts.models import Organisation
from apps.invoicing.ledger_checks import ledger_check_request, ledger_check_run
from apps.invoicing.models import LedgerCheck


class HasOrganisation(Protocol):
    """A cast, or a scene of a test."""

    @property
    def organisation(self) -> Organisation: ...


def checked(who: HasOrganisation) -> LedgerCheck:
    """Asked for and finished."""
    asked = ledger_check_request(organisation=who.organisation, actor=None, now=timezone.now())
    return ledger_check_run(check_id=asked.pk, clock=timezone.now)
