"""What an organisation imported of places besides the pools here, and its own machines."""

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
    """A file that somebody else made: its digest, who imported it, and until when it is used.

    `digest`: SHA-256 in hexadecimal. It is used before `expires_at` alone; the instant may be brought forward, never put off.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    digest = models.CharField(max_length=64)
    expires_at = models.DateTimeField()
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()

    class Meta:
        abstract = True

    def is_expired(self, *, now: datetime) -> bool:
        """It is not used any more."""
        return now >= self.expires_at


class PlaceMeasurement(ImportedFile):
    """What `takt measure` wrote on some machine: measured, not proven.

    `document`: the whole file. `machines`: the names under which prices and machines of one's own are looked up; `keys`: these
    names, and those of its GPUs, as `name_key` writes them.
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
    """Prices of rented machines as a file had them on a day: `as_of`. Nothing is fetched."""

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
    """A row of a price list: a machine in one place. `keys` are for looking up; prices are of one hour."""

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
    """A machine of the organisation's own, and what it costs. `key`: its name as `name_key` writes it, by which measurements
    are found. `capital` is written off evenly over `months`; `watts` are drawn while it works; `utilisation` is the share of
    hours in which it can be given work."""

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
