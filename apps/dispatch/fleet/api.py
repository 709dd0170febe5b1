"""JSON API of the fleet for platform administrators."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from ninja import Field, Router, Schema

from apps.accounts.access import principal_get
from apps.accounts.auth import requires
from apps.accounts.bodies import RequestBody
from apps.accounts.idempotency import idempotent
from apps.accounts.numbers import Whole
from apps.accounts.paging import Cursor, paginate
from apps.accounts.roles import Scope
from apps.dispatch.fleet import Plan, edits, fleet_apply, fleet_edit, fleet_preview, fleet_undo
from apps.dispatch.fleet.applying import Edit
from apps.fleet.current import document_now, document_parse
from apps.fleet.document import LARGEST, write
from apps.fleet.models import FleetChange

router = Router(tags=["fleet"])
ADMIN = requires(Scope.ADMIN)
TEXT = r"^[^\x00]*$"
Raw = dict[str, Any]


class FleetFileIn(RequestBody):
    """A fleet file as TOML text of at most 1 MiB."""

    toml: str = Field(max_length=LARGEST, pattern=TEXT)


class FleetApplyIn(FleetFileIn):
    """A fleet file to apply. `expected` is the digest of the fleet that you saw. The file is refused if the fleet has
    changed since then.
    """

    expected: str = Field(pattern=r"^[0-9a-f]{64}$")


class FleetUndoIn(RequestBody):
    """A request to undo the last change. `expected` is the digest of the fleet that you saw."""

    expected: str = Field(pattern=r"^[0-9a-f]{64}$")


class FleetProcessorIn(RequestBody):
    """A processor's TOML file. The guide to processors describes the format."""

    file: str = Field(max_length=LARGEST, pattern=TEXT)


class FleetSiteIn(RequestBody):
    """A site. The time zone is an IANA name."""

    name: str = Field(max_length=80)
    time_zone: str = Field(default="UTC", max_length=60)


class FleetPoolIn(RequestBody):
    """The settings of a pool. Omitted fields do not change. A new pool needs a site and a processor. The processor
    "host" is the machine's own CPU.

    `klass` is the pool's price class. The default is the processor's price class. It cannot be changed later.
    """

    name: str | None = Field(default=None, max_length=80)
    site: str | None = Field(default=None, max_length=40)
    processor: str | None = Field(default=None, max_length=40)
    klass: str | None = Field(default=None, max_length=20)
    power_percent: Whole | None = None
    devices: Whole | None = None


class FleetCostIn(RequestBody):
    """The cost of a pool's devices. Decimals are sent as text, and `begins` needs a time zone. For depreciation, a
    month has 730 hours.
    """

    begins: str = Field(max_length=40)
    currency: str = Field(max_length=3)
    capital: str = Field(max_length=40)
    months: Whole
    watts: str = Field(max_length=40)
    energy_price: str = Field(max_length=40)
    pue: str = Field(default="1", max_length=40)


class FleetDevicesIn(RequestBody):
    """The number of devices to add, and their state. New devices are named with the lowest free numbers."""

    count: Whole
    state: str = Field(default="active", max_length=10)


class FleetDeviceIn(RequestBody):
    """A device's new state: active, draining, failed or spare."""

    state: str = Field(max_length=10)


class FleetOut(Schema):
    """The current fleet as data and as a TOML file, with its digest."""

    digest: str
    document: Raw
    toml: str


class FleetCheckedOut(Schema):
    digest: str
    pools: int
    devices: int


class FleetStayOut(Schema):
    pool: str
    device: str
    windows: int
    until: datetime


class FleetMoveOut(Schema):
    window: UUID
    contract: UUID
    pool: str
    before: str
    after: str


class FleetPromiseOut(Schema):
    contract: UUID
    organisation: str
    pool: str
    until: datetime


class FleetDiffOut(Schema):
    """The effect of applying the file now. `broken` lists the contracts that would lose their time. If `broken` is not
    empty, the file cannot be applied.
    """

    before: str
    after: str
    sentence: str
    changes: list[Raw]
    moves: list[FleetMoveOut]
    stays: list[FleetStayOut]
    broken: list[FleetPromiseOut]


class FleetChangeOut(Schema):
    """A change to the fleet. `moves` is the number of windows that moved to another device."""

    id: int
    at: datetime
    by: str | None
    note: str
    summary: str
    before: str = Field(alias="before_digest")
    after: str = Field(alias="after_digest")
    moves: int
    undone_at: datetime | None

    @staticmethod
    def resolve_by(row: FleetChange) -> str | None:
        return row.actor.email if row.actor else None

    @staticmethod
    def resolve_moves(row: FleetChange) -> int:
        return len(row.moves)


class FleetEditOut(Schema):
    """The digest of the current fleet, and the change that was made; null if nothing changed."""

    digest: str
    change: FleetChangeOut | None


@router.get("/fleet", auth=ADMIN, response=FleetOut, summary="The current fleet")
def fleet_get(request: HttpRequest) -> Raw:
    """Returns the fleet as data and as a file for `POST /fleet/apply`."""
    document = document_now()
    return {"digest": document.digest, "document": document.to_json(), "toml": write(document)}


@router.post("/fleet/check", auth=ADMIN, response=FleetCheckedOut, summary="Check a fleet file")
def fleet_check(request: HttpRequest, payload: FleetFileIn) -> Raw:
    """Checks a fleet file. Returns all faults together, with a remedy for each fault."""
    document = document_parse(payload.toml)
    devices = sum(len(pool.devices) for pool in document.pools.values())
    return {"digest": document.digest, "pools": len(document.pools), "devices": devices}


@router.post("/fleet/diff", auth=ADMIN, response=FleetDiffOut, summary="Preview a fleet file")
def fleet_diff(request: HttpRequest, payload: FleetFileIn) -> Raw:
    """Shows the effect of a fleet file without changing anything, even if applying the file would be refused."""
    return _told(fleet_preview(document=document_parse(payload.toml), now=timezone.now()))


@router.post("/fleet/apply", auth=ADMIN, response=FleetEditOut, summary="Apply a fleet file")
@idempotent
def fleet_apply_file(request: HttpRequest, payload: FleetApplyIn) -> Raw:
    """Applies the file in one transaction. If any contract would lose its time, nothing changes and the error names the
    contracts.
    """
    document = document_parse(payload.toml)
    change = fleet_apply(
        document=document, expected=payload.expected, actor=principal_get(request).user, now=timezone.now(), note="API"
    )
    return _outcome(change)


@router.post("/fleet/undo", auth=ADMIN, response=FleetEditOut, summary="Undo the last change to the fleet")
@idempotent
def fleet_undo_last(request: HttpRequest, payload: FleetUndoIn) -> Raw:
    """Restores the fleet as it was before the last change. If newer contracts would lose their time, nothing changes
    and the error names the contracts.
    """
    change = fleet_undo(expected=payload.expected, actor=principal_get(request).user, now=timezone.now())
    return _outcome(change)


@router.get(
    "/fleet/changes",
    auth=ADMIN,
    response=list[FleetChangeOut],
    operation_id="fleet_change_list",
    summary="Changes to the fleet, newest first",
)
@paginate(Cursor, ordering=("-id",))
def fleet_change_list(request: HttpRequest) -> QuerySet[FleetChange]:
    """Lists all changes, newest first. `POST /fleet/undo` undoes the newest change that has not been undone."""
    return FleetChange.objects.select_related("actor")


@router.put("/fleet/sites/{slug}", auth=ADMIN, response=FleetEditOut, summary="Create or change a site")
def fleet_site_set(request: HttpRequest, slug: str, payload: FleetSiteIn) -> Raw:
    """Creates or changes a site."""
    return _edited(request, edits.site_set(slug, payload.dict()))


@router.delete("/fleet/sites/{slug}", auth=ADMIN, response=FleetEditOut, summary="Remove a site")
def fleet_site_remove(request: HttpRequest, slug: str) -> Raw:
    """Removes a site. Refused while the site has pools."""
    return _edited(request, edits.site_remove(slug))


@router.put("/fleet/processors/{slug}", auth=ADMIN, response=FleetEditOut, summary="Offer a custom processor")
def fleet_processor_set(request: HttpRequest, slug: str, payload: FleetProcessorIn) -> Raw:
    """Adds or replaces a custom processor. Every organisation can compile for the processor. Replacing the file is
    refused while contracts hold time on the processor's pools.
    """
    return _edited(request, edits.processor_set(slug, payload.file))


@router.delete("/fleet/processors/{slug}", auth=ADMIN, response=FleetEditOut, summary="Stop offering a processor")
def fleet_processor_remove(request: HttpRequest, slug: str) -> Raw:
    """Removes a custom processor. Refused while a pool uses the processor."""
    return _edited(request, edits.processor_remove(slug))


@router.put("/fleet/pools/{slug}", auth=ADMIN, response=FleetEditOut, summary="Create or change a pool")
def fleet_pool_set(request: HttpRequest, slug: str, payload: FleetPoolIn) -> Raw:
    """Creates or changes a pool. Changing the processor is refused while contracts hold time on the pool. The pool's
    kind and price class cannot be changed.
    """
    facts = payload.dict(exclude_none=True)
    return _edited(request, edits.pool_set(slug, {"class" if name == "klass" else name: facts[name] for name in facts}))


@router.delete("/fleet/pools/{slug}", auth=ADMIN, response=FleetEditOut, summary="Remove a pool")
def fleet_pool_remove(request: HttpRequest, slug: str) -> Raw:
    """Removes a pool and retires its devices. Refused while contracts hold time on the pool."""
    return _edited(request, edits.pool_remove(slug))


@router.post("/fleet/pools/{slug}/costs", auth=ADMIN, response=FleetEditOut, summary="Set the cost of a pool's devices")
@idempotent
def fleet_cost_set(request: HttpRequest, slug: str, payload: FleetCostIn) -> Raw:
    """Sets the cost of a pool's devices, effective from `begins`. Replaces a cost that begins at the same instant."""
    facts = payload.dict()
    return _edited(request, edits.cost_set(slug, {"from": facts.pop("begins"), **facts}))


@router.post("/fleet/pools/{slug}/devices", auth=ADMIN, response=FleetEditOut, summary="Add devices to a pool")
@idempotent
def fleet_devices_add(request: HttpRequest, slug: str, payload: FleetDevicesIn) -> Raw:
    """Adds devices to a pool. Active devices can receive new windows immediately."""
    return _edited(request, edits.devices_add(slug, payload.count, payload.state))


@router.put(
    "/fleet/pools/{slug}/devices/{name}", auth=ADMIN, response=FleetEditOut, summary="Change the state of a device"
)
def fleet_device_set(request: HttpRequest, slug: str, name: str, payload: FleetDeviceIn) -> Raw:
    """Changes the state of a device. If necessary, the device's windows move to other devices of the pool. The times of
    the windows do not change.
    """
    return _edited(request, edits.device_set(slug, name, payload.state))


@router.delete("/fleet/pools/{slug}/devices/{name}", auth=ADMIN, response=FleetEditOut, summary="Retire a device")
def fleet_device_retire(request: HttpRequest, slug: str, name: str) -> Raw:
    """Retires a device. A retired device is no longer in the fleet and costs nothing."""
    return _edited(request, edits.device_set(slug, name, None))


def _edited(request: HttpRequest, edit: Edit) -> Raw:
    change = fleet_edit(edit=edit, actor=principal_get(request).user, now=timezone.now(), note="API")
    return _outcome(change)


def _outcome(change: FleetChange | None) -> Raw:
    return {"digest": document_now().digest, "change": change}


def _told(plan: Plan) -> Raw:
    rows = [
        {"what": one.what, "place": one.place, "verb": one.verb, "before": one.before, "after": one.after}
        for one in plan.difference.changes
    ]
    return {
        "before": plan.before.digest,
        "after": plan.after.digest,
        "sentence": plan.sentence(),
        "changes": rows,
        "moves": [one._asdict() for one in plan.moves],
        "stays": [one._asdict() for one in plan.stays],
        "broken": [one._asdict() for one in plan.broken],
    }
