"""Imported measurements and price lists, and the machines that an organisation owns."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import ClassVar

from django.conf import settings
from django.db import models

from apps.accounts.models import Organisation
from apps.planner.hosting.cells import DIGITS, PLACES_MAX, Format

PRICE_DIGITS = DIGITS + PLACES_MAX
NAME_LENGTH = 80


class ImportedFile(models.Model):
    """An imported file, valid until `expires_at`. `digest` is the SHA-256 of the file in hexadecimal."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    digest = models.CharField(max_length=64)
    expires_at = models.DateTimeField()
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()

    class Meta:
        abstract = True

    def is_expired(self, *, now: datetime) -> bool:
        """Return whether the file has expired."""
        return now >= self.expires_at


class PlaceMeasurement(ImportedFile):
    """Measured execution times of a model on a machine, from a file that `takt measure` wrote.

    `machines` are the names by which prices and owned machines are found. `keys` are the normalised names of these
    machines and of the GPUs.
    """

    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="place_measurements")
    model_sha256 = models.CharField(max_length=64)
    model_name = models.CharField(max_length=200)
    hardware = models.TextField()
    runtime = models.CharField(max_length=500)
    machines = models.JSONField(default=list)
    keys = models.JSONField(default=list)
    measured_at = models.DateTimeField()
    document = models.JSONField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["organisation", "digest"], name="placemeasurement_once"),
        ]
        indexes: ClassVar = [models.Index(fields=["organisation", "model_sha256"], name="placemeasurement_of_model")]

    def __str__(self) -> str:
        return f"{self.model_name} on {self.hardware}, {self.measured_at:%Y-%m-%d}"


class PriceListFile(ImportedFile):
    """A file with the prices of rented machines on the day `as_of`."""

    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="price_lists")
    source = models.CharField(max_length=NAME_LENGTH)
    filename = models.CharField(max_length=200)
    kind = models.CharField(max_length=10, choices=[(one.value, one.value) for one in Format])
    currency = models.CharField(max_length=3)
    as_of = models.DateField()
    row_count = models.PositiveIntegerField()
    left_out = models.PositiveIntegerField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["organisation", "digest", "kind"], name="pricelist_once")
        ]

    def __str__(self) -> str:
        return f"{self.source}, {self.as_of}"


class RentedPrice(models.Model):
    """The hourly prices of a machine in one region and zone. The `_key` fields hold normalised names."""

    organisation_path = "price_list__organisation"

    id = models.BigAutoField(primary_key=True)
    price_list = models.ForeignKey(PriceListFile, on_delete=models.CASCADE, related_name="prices")
    line = models.PositiveIntegerField()
    machine = models.CharField(max_length=160)
    region = models.CharField(max_length=160)
    zone = models.CharField(max_length=160)
    accelerator = models.CharField(max_length=160)
    accelerators = models.DecimalField(max_digits=PRICE_DIGITS, decimal_places=PLACES_MAX)
    machine_key = models.CharField(max_length=120)
    accelerator_key = models.CharField(max_length=120)
    gpu_key = models.CharField(max_length=120)
    on_demand = models.DecimalField(max_digits=PRICE_DIGITS, decimal_places=PLACES_MAX, null=True)
    spot = models.DecimalField(max_digits=PRICE_DIGITS, decimal_places=PLACES_MAX, null=True)

    class Meta:
        indexes: ClassVar = [models.Index(fields=["price_list", "machine_key"], name="rentedprice_of_machine")]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(on_demand__gt=0) | models.Q(spot__gt=0),
                name="rentedprice_is_sold",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.machine} in {self.region}"


class OwnMachine(models.Model):
    """A machine that the organisation owns, and its costs.

    `key` is the normalised name. `capital` is depreciated evenly over `months`. `watts` is the power drawn during work.
    `utilisation` is the share of hours in which the machine can work.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="own_machines")
    name = models.CharField(max_length=NAME_LENGTH)
    key = models.CharField(max_length=120)
    currency = models.CharField(max_length=3)
    capital = models.DecimalField(max_digits=20, decimal_places=4)
    months = models.PositiveSmallIntegerField()
    watts = models.DecimalField(max_digits=12, decimal_places=3)
    energy_price = models.DecimalField(max_digits=18, decimal_places=9)
    pue = models.DecimalField(max_digits=6, decimal_places=3)
    utilisation = models.DecimalField(max_digits=6, decimal_places=5)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["organisation", "key"], name="ownmachine_once"),
            models.CheckConstraint(
                condition=models.Q(
                    capital__gte=0,
                    months__gte=1,
                    watts__gte=0,
                    energy_price__gte=0,
                    pue__gte=1,
                    utilisation__gt=0,
                    utilisation__lte=1,
                ),
                name="ownmachine_sane",
            ),
        ]

    def __str__(self) -> str:
        return self.name
