"""The API for hosting outside Takt: measurements, price lists, owned machines and comparisons."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from ninja import File, Form, Router, Schema
from ninja.files import UploadedFile
from pydantic import Field

from apps.accounts.access import org_object_get, organisation_get, principal_get
from apps.accounts.auth import requires
from apps.accounts.bodies import RequestBody
from apps.accounts.idempotency import idempotent
from apps.accounts.numbers import Day, Instant, Whole
from apps.accounts.paging import Cursor, paginate
from apps.accounts.roles import ENGINEERING, Scope
from apps.planner import hosting_selectors as selectors
from apps.planner import hosting_services as services
from apps.planner.hosting import pricelist
from apps.planner.hosting.cells import Format
from apps.planner.hosting_comparison import comparison_of
from apps.planner.hosting_wording import document
from apps.planner.models import OwnMachine, PlaceMeasurement, Plan, PriceListFile

router = Router(tags=["places"])
BUILD = requires(Scope.BUILD, roles=ENGINEERING)


class MeasurementIn(RequestBody):
    """`document` is the file that `takt measure -o` writes. `machines` replaces the machine names in the file.
    `expires_at` is 90 days after the measurement by default, and at most 365 days.
    """

    document: dict[str, Any]
    machines: list[str] | None = Field(default=None, max_length=8)
    expires_at: Instant | None = None


class MeasurementChangeIn(RequestBody):
    """Omitted fields keep their values. The validity can only be shortened."""

    machines: list[str] | None = Field(default=None, max_length=8)
    expires_at: Instant | None = None


class PlaceMeasurementOut(Schema):
    """`digest` is the SHA-256 of the document. The measurement is used until `expires_at`."""

    id: UUID
    digest: str
    model_name: str
    model_sha256: str
    hardware: str
    runtime: str
    machines: list[str]
    measured_at: datetime
    expires_at: datetime
    is_expired: bool
    created_at: datetime

    @staticmethod
    def resolve_is_expired(row: PlaceMeasurement) -> bool:
        return row.is_expired(now=timezone.now())


class PlaceMeasurementFullOut(PlaceMeasurementOut):
    """A measurement with its whole document."""

    document: dict[str, Any]


class PriceListOut(Schema):
    """`digest` is the SHA-256 of the file. `left_out` is the number of skipped rows."""

    id: UUID
    digest: str
    source: str
    kind: Format
    currency: str
    as_of: date
    expires_at: datetime
    is_expired: bool
    row_count: int
    left_out: int
    created_at: datetime

    @staticmethod
    def resolve_is_expired(row: PriceListFile) -> bool:
        return row.is_expired(now=timezone.now())


class PriceListChangeIn(RequestBody):
    """The validity can only be shortened."""

    expires_at: Instant


class OwnMachineIn(RequestBody):
    """Numbers are exact decimals. `capital` is depreciated over `months`. `energy_price` is per kilowatt-hour.
    `utilisation` is the share of hours in which the machine can work.
    """

    name: str = Field(min_length=1, max_length=80)
    currency: str = Field(min_length=3, max_length=3)
    capital: Decimal = Field(ge=0, max_digits=20, decimal_places=4)
    months: Whole = Field(ge=1, le=services.MONTHS_MAX)
    watts: Decimal = Field(ge=0, max_digits=12, decimal_places=3)
    energy_price: Decimal = Field(ge=0, max_digits=18, decimal_places=9)
    pue: Decimal = Field(default=Decimal(1), ge=1, le=10, max_digits=6, decimal_places=3)
    utilisation: Decimal = Field(gt=0, le=1, max_digits=6, decimal_places=5)


class OwnMachineOut(Schema):
    """Numbers are exact decimals, as text."""

    id: UUID
    name: str
    currency: str
    capital: str
    months: int
    watts: str
    energy_price: str
    pue: str
    utilisation: str
    created_at: datetime

    @staticmethod
    def _text(row: OwnMachine, name: str) -> str:
        return f"{getattr(row, name).normalize():f}"

    resolve_capital = staticmethod(lambda row: OwnMachineOut._text(row, "capital"))
    resolve_watts = staticmethod(lambda row: OwnMachineOut._text(row, "watts"))
    resolve_energy_price = staticmethod(lambda row: OwnMachineOut._text(row, "energy_price"))
    resolve_pue = staticmethod(lambda row: OwnMachineOut._text(row, "pue"))
    resolve_utilisation = staticmethod(lambda row: OwnMachineOut._text(row, "utilisation"))


class PlanPlacesOut(Schema):
    """Fractions are written as "3/4". `groups` holds one group of machines per currency; the plan's currency comes
    first. `unused` lists the imported files that were not compared, with the reasons.
    """

    plan: UUID
    title: str
    at: datetime
    items_per_month: int
    hours_per_month: int
    groups: list[dict[str, Any]]
    without_price: list[dict[str, Any]]
    unused: list[dict[str, Any]]


@router.post("/places/measurements", auth=BUILD, response={201: PlaceMeasurementOut}, summary="Import a measurement")
@idempotent
def measurement_import(request: HttpRequest, payload: MeasurementIn) -> tuple[int, PlaceMeasurement]:
    row = services.measurement_import(
        organisation=organisation_get(request, roles=ENGINEERING),
        data=json.dumps(payload.document).encode(),
        machines=payload.machines,
        expires_at=payload.expires_at,
        actor=principal_get(request).user,
        now=timezone.now(),
    )
    return 201, row


@router.get("/places/measurements", response=list[PlaceMeasurementOut], summary="Measurements, newest first")
@paginate(Cursor, ordering=("-measured_at", "-id"))
def measurement_list(request: HttpRequest) -> QuerySet[PlaceMeasurement]:
    return selectors.measurements_list(organisation_get(request))


@router.get("/places/measurements/{uuid:pk}", response=PlaceMeasurementFullOut, summary="One measurement")
def measurement_get(request: HttpRequest, pk: UUID) -> PlaceMeasurement:
    return org_object_get(request, PlaceMeasurement, pk=pk)


@router.post("/places/measurements/{uuid:pk}", auth=BUILD, response=PlaceMeasurementOut, summary="Change a measurement")
@idempotent
def measurement_change(request: HttpRequest, pk: UUID, payload: MeasurementChangeIn) -> PlaceMeasurement:
    """Change the machine names, or shorten the validity."""
    row = org_object_get(request, PlaceMeasurement, roles=ENGINEERING, pk=pk)
    return services.measurement_change(
        measurement=row,
        machines=payload.machines,
        expires_at=payload.expires_at,
        actor=principal_get(request).user,
        now=timezone.now(),
    )


@router.delete("/places/measurements/{uuid:pk}", auth=BUILD, response={204: None}, summary="Remove a measurement")
def measurement_remove(request: HttpRequest, pk: UUID) -> tuple[int, None]:
    return _removed(request, PlaceMeasurement, pk)


@router.post("/places/price-lists", auth=BUILD, response={201: PriceListOut}, summary="Import a price list")
@idempotent
def pricelist_import(
    request: HttpRequest,
    file: File[UploadedFile],
    kind: Form[Format],
    source: Form[str],
    as_of: Form[Day],
    expires_at: Form[Instant | None] = None,
) -> tuple[int, PriceListFile]:
    """Import a CSV file with the prices of the day `as_of`."""
    row = services.pricelist_import(
        organisation=organisation_get(request, roles=ENGINEERING),
        data=file.read(pricelist.BYTES_MAX + 1),
        kind=kind,
        source=source,
        as_of=as_of,
        filename=file.name or "",
        expires_at=expires_at,
        actor=principal_get(request).user,
        now=timezone.now(),
    )
    return 201, row


@router.get("/places/price-lists", response=list[PriceListOut], summary="Price lists, newest first")
@paginate(Cursor, ordering=("-as_of", "-id"))
def pricelist_list(request: HttpRequest) -> QuerySet[PriceListFile]:
    return selectors.pricelists_list(organisation_get(request))


@router.get("/places/price-lists/{uuid:pk}", response=PriceListOut, summary="One price list")
def pricelist_get(request: HttpRequest, pk: UUID) -> PriceListFile:
    return org_object_get(request, PriceListFile, pk=pk)


@router.post(
    "/places/price-lists/{uuid:pk}", auth=BUILD, response=PriceListOut, summary="Shorten a price list's validity"
)
@idempotent
def pricelist_change(request: HttpRequest, pk: UUID, payload: PriceListChangeIn) -> PriceListFile:
    row = org_object_get(request, PriceListFile, roles=ENGINEERING, pk=pk)
    actor, now = principal_get(request).user, timezone.now()
    return services.pricelist_change(price_list=row, expires_at=payload.expires_at, actor=actor, now=now)


@router.delete("/places/price-lists/{uuid:pk}", auth=BUILD, response={204: None}, summary="Remove a price list")
def pricelist_remove(request: HttpRequest, pk: UUID) -> tuple[int, None]:
    return _removed(request, PriceListFile, pk)


@router.post("/places/machines", auth=BUILD, response={201: OwnMachineOut}, summary="Add a machine of your own")
@idempotent
def machine_add(request: HttpRequest, payload: OwnMachineIn) -> tuple[int, OwnMachine]:
    """Add a machine. A machine with the same name is replaced."""
    organisation = organisation_get(request, roles=ENGINEERING)
    facts = services.MachineFacts(**payload.model_dump())
    actor, now = principal_get(request).user, timezone.now()
    return 201, services.machine_add(organisation=organisation, machine=facts, actor=actor, now=now)


@router.get("/places/machines", response=list[OwnMachineOut], summary="Your own machines")
@paginate(Cursor, ordering=("name", "id"))
def machine_list(request: HttpRequest) -> QuerySet[OwnMachine]:
    return selectors.machines_list(organisation_get(request))


@router.delete("/places/machines/{uuid:pk}", auth=BUILD, response={204: None}, summary="Remove a machine of your own")
def machine_remove(request: HttpRequest, pk: UUID) -> tuple[int, None]:
    return _removed(request, OwnMachine, pk)


@router.get("/plans/{uuid:pk}/places", response=PlanPlacesOut, summary="Compare a plan with other machines")
def plan_places(request: HttpRequest, pk: UUID) -> dict[str, Any]:
    """Compare the plan's pools with rented machines and with your own machines, by monthly cost and volume."""
    plan = org_object_get(request, Plan, pk=pk)
    now = timezone.now()
    return document(plan, comparison_of(plan, now=now), now=now)


def _removed(request: HttpRequest, kind: type[Any], pk: UUID) -> tuple[int, None]:
    row = org_object_get(request, kind, roles=ENGINEERING, pk=pk)
    services.place_remove(place=row, actor=principal_get(request).user, now=timezone.now())
    return 204, None
