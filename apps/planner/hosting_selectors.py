"""Read imported measurements, price lists and machines."""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar

from django.db.models import QuerySet

from apps.accounts.models import Organisation
from apps.planner.hosting_models import ImportedFile, OwnMachine, PlaceMeasurement, PriceListFile

F = TypeVar("F", bound=ImportedFile)


def measurements_list(organisation: Organisation) -> QuerySet[PlaceMeasurement]:
    """Return the organisation's measurements without their documents, newest first."""
    rows = PlaceMeasurement.objects.filter(organisation=organisation).defer("document")
    return rows.order_by("-measured_at", "-id")


def pricelists_list(organisation: Organisation) -> QuerySet[PriceListFile]:
    """Return the organisation's price lists, newest first."""
    return PriceListFile.objects.filter(organisation=organisation).order_by("-as_of", "-id")


def machines_list(organisation: Organisation) -> QuerySet[OwnMachine]:
    """Return the machines that the organisation owns, sorted by name."""
    return OwnMachine.objects.filter(organisation=organisation).order_by("name", "id")


def measurements_shown(organisation: Organisation, *, now: datetime) -> list[tuple[PlaceMeasurement, bool]]:
    """Return each measurement, and whether the measurement has expired."""
    return _with_expiry(measurements_list(organisation), now)


def pricelists_shown(organisation: Organisation, *, now: datetime) -> list[tuple[PriceListFile, bool]]:
    """Return each price list, and whether the price list has expired."""
    return _with_expiry(pricelists_list(organisation), now)


def _with_expiry(rows: QuerySet[F], now: datetime) -> list[tuple[F, bool]]:
    return [(row, row.is_expired(now=now)) for row in rows]
