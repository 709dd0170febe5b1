"""Import measurements and price lists, and add owned machines."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeVar

from django.db import IntegrityError, models, transaction

from apps.accounts.models import Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.currencies import PLACES
from apps.planner.hosting.cells import Format, Price
from apps.planner.hosting.faults import Fault, Unreadable
from apps.planner.hosting.measurement import NAMES_MAX, gpu_names, measurement_read
from apps.planner.hosting.names import name_key
from apps.planner.hosting.offers import USED_FOR
from apps.planner.hosting.pricelist import pricelist_read
from apps.planner.hosting_models import (
    NAME_LENGTH,
    ImportedFile,
    OwnMachine,
    PlaceMeasurement,
    PriceListFile,
    RentedPrice,
)

LONGEST = timedelta(days=365)
MEASUREMENTS_MAX, LISTS_MAX, MACHINES_MAX = 200, 20, 50
MONTHS_MAX = 600
ROWS_AT_ONCE = 2000
FIRST_DAY = date(2000, 1, 1)

I = TypeVar("I", bound=ImportedFile)  # noqa: E741 - one kind of imported file


@transaction.atomic
def measurement_import(
    *,
    organisation: Organisation,
    data: bytes,
    actor: User,
    now: datetime,
    machines: Sequence[str] | None = None,
    expires_at: datetime | None = None,
) -> PlaceMeasurement:
    """Store a measurement file. `machines` replaces the machine names in the file.

    Raises Problem(422) with every fault of the file, and Problem(409) if the file was imported before.
    """
    try:
        found = measurement_read(data, now=now)
    except Unreadable as error:
        raise _refused("Not a measurement", "measurement-invalid", error) from error
    names = _names(found.machines if machines is None else machines)
    _limit_check(organisation, PlaceMeasurement, MEASUREMENTS_MAX, "measurements")
    row = PlaceMeasurement(
        organisation=organisation,
        digest=found.digest,
        model_sha256=found.model_sha256,
        model_name=found.model_name,
        hardware=found.hardware,
        runtime=f"{found.runtime}, {found.provider}",
        machines=names,
        keys=_keys(names, found.document),
        measured_at=found.measured_at,
        document=dict(found.document),
        expires_at=_expiry(expires_at, found.measured_at),
        created_by=actor,
        created_at=now,
    )
    _kept(row, PlaceMeasurement.objects.filter(organisation=organisation, digest=found.digest), "measurement")
    _audit(
        "measurement.import",
        row,
        organisation,
        actor,
        now,
        {"digest": row.digest, "expires_at": row.expires_at.isoformat()},
    )
    return row


@transaction.atomic
def measurement_change(
    *,
    measurement: PlaceMeasurement,
    actor: User,
    now: datetime,
    machines: Sequence[str] | None = None,
    expires_at: datetime | None = None,
) -> PlaceMeasurement:
    """Change the machine names or shorten the validity. Raises Problem(422) if the validity would become longer."""
    row = PlaceMeasurement.objects.select_for_update().get(pk=measurement.pk)
    detail: dict[str, Any] = {}
    if machines is not None:
        row.machines = detail["machines"] = _names(machines)
        row.keys = _keys(row.machines, row.document)
    if expires_at is not None:
        row.expires_at = _earlier(row, expires_at)
        detail["expires_at"] = row.expires_at.isoformat()
    row.save(update_fields=["machines", "keys", "expires_at"])
    _audit("measurement.change", row, row.organisation, actor, now, detail)
    return row


@transaction.atomic
def pricelist_import(
    *,
    organisation: Organisation,
    data: bytes,
    kind: str,
    source: str,
    as_of: date,
    actor: User,
    now: datetime,
    filename: str = "",
    expires_at: datetime | None = None,
) -> PriceListFile:
    """Store a price list with the prices of the day `as_of`.

    Raises Problem(422) with the faults of the file, and Problem(409) if the file was imported before.
    """
    _list_check(kind, source, as_of, now)
    try:
        found = pricelist_read(data, Format(kind))
    except Unreadable as error:
        raise _refused("Invalid price list", "price-list-invalid", error) from error
    _limit_check(organisation, PriceListFile, LISTS_MAX, "price lists")
    digest = hashlib.sha256(data).hexdigest()
    row = PriceListFile(
        organisation=organisation,
        digest=digest,
        source=source.strip(),
        filename="".join(one for one in filename if one.isprintable())[:200],
        kind=kind,
        currency=found.currency,
        as_of=as_of,
        row_count=len(found.prices),
        left_out=found.left_out,
        expires_at=_expiry(expires_at, datetime.combine(as_of, time(), UTC)),
        created_by=actor,
        created_at=now,
    )
    _kept(row, PriceListFile.objects.filter(organisation=organisation, digest=digest, kind=kind), "price list")
    RentedPrice.objects.bulk_create([_priced(row, price) for price in found.prices], batch_size=ROWS_AT_ONCE)
    detail = {"digest": digest, "rows": row.row_count, "expires_at": row.expires_at.isoformat()}
    _audit("price_list.import", row, organisation, actor, now, detail)
    return row


def _list_check(kind: str, source: str, as_of: date, now: datetime) -> None:
    if kind not in {one.value for one in Format}:
        known = ", ".join(one.value for one in Format)
        raise Problem(422, "Unknown format", f"Choose one of the formats {known}.", kind="price-list-invalid")
    if not source.strip() or len(source) > NAME_LENGTH or not source.isprintable():
        detail = f"Name the source of the list in at most {NAME_LENGTH} printable characters."
        raise Problem(422, "Source missing", detail, kind="price-list-invalid")
    if not FIRST_DAY <= as_of <= now.date() + timedelta(days=1):
        detail = f"The date of the prices must be from 2000 to today; you gave {as_of.isoformat()}."
        raise Problem(422, "Impossible day", detail, kind="price-list-invalid")


def _priced(row: PriceListFile, price: Price) -> RentedPrice:
    return RentedPrice(
        price_list=row,
        line=price.line,
        machine=price.machine,
        region=price.region,
        zone=price.zone,
        accelerator=price.accelerator,
        accelerators=price.accelerators,
        machine_key=name_key(price.machine),
        accelerator_key=name_key(price.accelerator),
        gpu_key=name_key(price.gpu),
        on_demand=price.on_demand,
        spot=price.spot,
    )


@transaction.atomic
def pricelist_change(*, price_list: PriceListFile, expires_at: datetime, actor: User, now: datetime) -> PriceListFile:
    """Shorten the validity. Raises Problem(422) if the validity would become longer."""
    row = PriceListFile.objects.select_for_update().get(pk=price_list.pk)
    row.expires_at = _earlier(row, expires_at)
    row.save(update_fields=["expires_at"])
    _audit("price_list.change", row, row.organisation, actor, now, {"expires_at": row.expires_at.isoformat()})
    return row


@dataclass(frozen=True)
class MachineFacts:
    """The data of an owned machine, as in `OwnMachine`."""

    name: str
    currency: str
    capital: Decimal
    months: int
    watts: Decimal
    energy_price: Decimal
    pue: Decimal
    utilisation: Decimal


FIGURES = {  # least, most, decimal places, what is said
    "capital": (Decimal(0), Decimal(10) ** 12, 4, "an amount of at least 0"),
    "watts": (Decimal(0), Decimal(10) ** 6, 3, "the machine's power in watts under load"),
    "energy_price": (Decimal(0), Decimal(10) ** 6, 9, "the price per kilowatt-hour"),
    "pue": (Decimal(1), Decimal(10), 3, "a number from 1 to 10, such as 1.3"),
    "utilisation": (Decimal("0.00001"), Decimal(1), 5, "a share above 0 and at most 1, such as 0.4"),
}


@transaction.atomic
def machine_add(*, organisation: Organisation, machine: MachineFacts, actor: User, now: datetime) -> OwnMachine:
    """Add a machine, or replace the machine with the same name. Raises Problem(422) for invalid numbers."""
    errors = _machine_errors(machine)
    if errors:
        detail = " ".join(error["message"] for error in errors)
        raise Problem(422, "Invalid machine", detail, kind="own-machine-invalid", errors=errors)
    key = name_key(machine.name)
    if not OwnMachine.objects.filter(organisation=organisation, key=key).exists():
        _limit_check(organisation, OwnMachine, MACHINES_MAX, "machines")
    described = {**asdict(machine), "name": machine.name.strip(), "created_by": actor, "created_at": now}
    row, _ = OwnMachine.objects.update_or_create(organisation=organisation, key=key, defaults=described)
    row.refresh_from_db()
    stated = {name: str(value) for name, value in asdict(machine).items()}
    _audit("machine.add", row, organisation, actor, now, stated)
    return row


def _machine_errors(machine: MachineFacts) -> list[dict[str, str]]:
    errors = [
        {"field": field, "message": f"Give {said}, with at most {places} decimal places."}
        for field, (least, most, places, said) in FIGURES.items()
        if not _fits(getattr(machine, field), least, most, places)
    ]
    if not 1 <= machine.months <= MONTHS_MAX:
        errors.append({"field": "months", "message": f"Give a whole number of months from 1 to {MONTHS_MAX}."})
    if machine.currency not in PLACES:
        errors.append({"field": "currency", "message": "Give an ISO 4217 currency code such as EUR."})
    if not name_key(machine.name) or len(machine.name) > NAME_LENGTH or not machine.name.isprintable():
        errors.append(
            {
                "field": "name",
                "message": f"Give a name of at most {NAME_LENGTH} printable characters, with a letter or digit.",
            }
        )
    return errors


def _fits(value: Decimal, least: Decimal, most: Decimal, places: int) -> bool:
    exponent = value.as_tuple().exponent
    return isinstance(exponent, int) and -exponent <= places and least <= value <= most


@transaction.atomic
def place_remove(*, place: PlaceMeasurement | PriceListFile | OwnMachine, actor: User, now: datetime) -> None:
    """Remove a measurement, a price list or a machine."""
    nouns = {PlaceMeasurement: "measurement", PriceListFile: "price_list", OwnMachine: "machine"}
    _audit(f"{nouns[type(place)]}.remove", place, place.organisation, actor, now, {})
    place.delete()


def _refused(title: str, kind: str, error: Unreadable) -> Problem:
    return Problem(422, title, str(error), kind=kind, errors=[_fault(fault) for fault in error.faults])


def _fault(fault: Fault) -> dict[str, Any]:
    return {"line": fault.line, "row": fault.name, "field": fault.column, "message": fault.message}


def _names(names: Sequence[str]) -> list[str]:
    found = list(dict.fromkeys(name.strip() for name in names if name.strip()))
    if len(found) > NAMES_MAX or any(
        not name_key(one) or len(one) > NAME_LENGTH or not one.isprintable() for one in found
    ):
        detail = f"Give at most {NAMES_MAX} names of at most {NAME_LENGTH} printable characters, separated by commas."
        raise Problem(422, "Invalid machine names", detail, kind="measurement-invalid")
    return found


def _keys(names: Sequence[str], document: Any) -> list[str]:
    return sorted({key for name in (*names, *gpu_names(document)) if (key := name_key(name))})


def _expiry(stated: datetime | None, since: datetime) -> datetime:
    if stated is None:
        return since + USED_FOR
    if not since < stated <= since + LONGEST:
        day = f"{since:%Y-%m-%d}, the date of the file"
        detail = f"Choose an expiry within {LONGEST.days} days after {day}. The default is {USED_FOR.days} days."
        raise Problem(422, "Expiry out of range", detail, kind="expiry-invalid")
    return stated


def _earlier(row: ImportedFile, stated: datetime) -> datetime:
    if stated > row.expires_at:
        detail = (
            f"This file is valid until {row.expires_at:%Y-%m-%d}, and you can only choose an earlier date. Import a newer "
            "file instead."
        )
        raise Problem(422, "Expiry out of range", detail, kind="expiry-invalid")
    return stated


def _limit_check(
    organisation: Organisation, kind: type[PlaceMeasurement | PriceListFile | OwnMachine], most: int, what: str
) -> None:
    rows: models.QuerySet[Any] = kind._default_manager.filter(organisation=organisation)
    if rows.count() >= most:
        raise Problem(
            422,
            "Too many",
            f"An organisation can have at most {most} {what}. Remove one first.",
            kind="too-many-places",
        )


def _kept(row: I, same: models.QuerySet[I], what: str) -> None:
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        before = same.get()
        detail = (
            f"This {what} was imported on {before.created_at:%Y-%m-%d}; its digest begins with {before.digest[:12]}."
        )
        errors = [{"field": "digest", "message": detail, "id": str(before.pk)}]
        raise Problem(409, "Already imported", detail, kind="already-imported", errors=errors) from None


def _audit(
    action: str, row: models.Model, organisation: Organisation, actor: User, now: datetime, detail: dict[str, Any]
) -> None:
    audit_record(action=action, now=now, actor=actor, organisation=organisation, subject=str(row)[:120], detail=detail)
