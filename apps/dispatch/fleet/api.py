"""The fleet over JSON, for platform administrators: as one document, and edit by edit."""

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
    """A fleet file, TOML as text of at most 1 MiB."""

    toml: str = Field(max_length=LARGEST, pattern=TEXT)


class FleetApplyIn(FleetFileIn):
    """`expected` is the digest of the fleet that was seen: where another runs by now the file is refused."""

    expected: str = Field(pattern=r"^[0-9a-f]{64}$")


class FleetUndoIn(RequestBody):
    """`expected` is the digest of the fleet that runs."""

    expected: str = Field(pattern=r"^[0-9a-f]{64}$")


class FleetProcessorIn(RequestBody):
    """The processor's TOML file, as the guide to processors describes it."""

    file: str = Field(max_length=LARGEST, pattern=TEXT)


class FleetSiteIn(RequestBody):
    """A site; its time zone is an IANA name."""

    name: str = Field(max_length=80)
    time_zone: str = Field(default="UTC", max_length=60)


class FleetPoolIn(RequestBody):
    """What is left out stays as it is; a new pool needs site and processor ("host": the machine's own CPU).

    `klass` is its price class, that of the processor where it is left out, and fixed once the pool is made."""

    name: str | None = Field(default=None, max_length=80)
    site: str | None = Field(default=None, max_length=40)
    processor: str | None = Field(default=None, max_length=40)
    klass: str | None = Field(default=None, max_length=20)
    power_percent: Whole | None = None
    devices: Whole | None = None


class FleetCostIn(RequestBody):
    """Decimals in quotes; `begins` with its zone; the months of depreciation have 730 hours each."""

    begins: str = Field(max_length=40)
    currency: str = Field(max_length=3)
    capital: str = Field(max_length=40)
    months: Whole
    watts: str = Field(max_length=40)
    energy_price: str = Field(max_length=40)
    pue: str = Field(default="1", max_length=40)


class FleetDevicesIn(RequestBody):
    """So many new devices, named by the first numbers that are free."""

    count: Whole
    state: str = Field(default="active", max_length=10)


class FleetDeviceIn(RequestBody):
    """active, draining, failed or spare."""

    state: str = Field(max_length=10)


class FleetOut(Schema):
    """The fleet that runs: as data, as a file, and its digest."""

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
    """What applying would do at this moment. `broken` are the contracts that would lose their time: it is refused then."""

    before: str
    after: str
    sentence: str
    changes: list[Raw]
    moves: list[FleetMoveOut]
    stays: list[FleetStayOut]
    broken: list[FleetPromiseOut]


class FleetChangeOut(Schema):
    """One change; `moves` is how many windows changed their device with it."""

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
    """The digest that runs now, and the change; null where it was so already."""

    digest: str
    change: FleetChangeOut | None


@router.get("/fleet", auth=ADMIN, response=FleetOut, summary="The fleet that runs")
def fleet_get(request: HttpRequest) -> Raw:
    """As data and as the file that `POST /fleet/apply` takes."""
    document = document_now()
    return {"digest": document.digest, "document": document.to_json(), "toml": write(document)}


@router.post("/fleet/check", auth=ADMIN, response=FleetCheckedOut, summary="Whether a fleet file can be used")
def fleet_check(request: HttpRequest, payload: FleetFileIn) -> Raw:
    """Every fault at once, each with its place and the remedy."""
    document = document_parse(payload.toml)
    devices = sum(len(pool.devices) for pool in document.pools.values())
    return {"digest": document.digest, "pools": len(document.pools), "devices": devices}


@router.post("/fleet/diff", auth=ADMIN, response=FleetDiffOut, summary="What a fleet file would change")
def fleet_diff(request: HttpRequest, payload: FleetFileIn) -> Raw:
    """Changes nothing; also what would be refused is told in full."""
    return _told(fleet_preview(document=document_parse(payload.toml), now=timezone.now()))


@router.post("/fleet/apply", auth=ADMIN, response=FleetEditOut, summary="Make a fleet file what runs")
@idempotent
def fleet_apply_file(request: HttpRequest, payload: FleetApplyIn) -> Raw:
    """In one transaction: nothing that was sold is lost, or nothing changes and the contracts are named."""
    document = document_parse(payload.toml)
    change = fleet_apply(
        document=document, expected=payload.expected, actor=principal_get(request).user, now=timezone.now(), note="API"
    )
    return _outcome(change)


@router.post("/fleet/undo", auth=ADMIN, response=FleetEditOut, summary="Undo the last change of the fleet")
@idempotent
def fleet_undo_last(request: HttpRequest, payload: FleetUndoIn) -> Raw:
    """Refused, with their names, where contracts that were sold since have no place in the fleet as it was."""
    change = fleet_undo(expected=payload.expected, actor=principal_get(request).user, now=timezone.now())
    return _outcome(change)


@router.get(
    "/fleet/changes",
    auth=ADMIN,
    response=list[FleetChangeOut],
    operation_id="fleet_change_list",
    summary="Changes of the fleet, newest first",
)
@paginate(Cursor, ordering=("-id",))
def fleet_change_list(request: HttpRequest) -> QuerySet[FleetChange]:
    """The last that is not undone is the one that `POST /fleet/undo` takes back."""
    return FleetChange.objects.select_related("actor")


@router.put("/fleet/sites/{slug}", auth=ADMIN, response=FleetEditOut, summary="Make or change a site")
def fleet_site_set(request: HttpRequest, slug: str, payload: FleetSiteIn) -> Raw:
    """One edit of the fleet: audited, and undone like any other."""
    return _edited(request, edits.site_set(slug, payload.dict()))


@router.delete("/fleet/sites/{slug}", auth=ADMIN, response=FleetEditOut, summary="Remove a site")
def fleet_site_remove(request: HttpRequest, slug: str) -> Raw:
    """Its pools must have gone."""
    return _edited(request, edits.site_remove(slug))


@router.put("/fleet/processors/{slug}", auth=ADMIN, response=FleetEditOut, summary="Offer a processor of your own")
def fleet_processor_set(request: HttpRequest, slug: str, payload: FleetProcessorIn) -> Raw:
    """Everybody can compile for it from now on. Described anew, it is refused while contracts hold its pools."""
    return _edited(request, edits.processor_set(slug, payload.file))


@router.delete("/fleet/processors/{slug}", auth=ADMIN, response=FleetEditOut, summary="Offer a processor no more")
def fleet_processor_remove(request: HttpRequest, slug: str) -> Raw:
    """No pool may have it."""
    return _edited(request, edits.processor_remove(slug))


@router.put("/fleet/pools/{slug}", auth=ADMIN, response=FleetEditOut, summary="Make or change a pool")
def fleet_pool_set(request: HttpRequest, slug: str, payload: FleetPoolIn) -> Raw:
    """A new processor is refused while contracts hold the pool's time; kind and price class are fixed."""
    facts = payload.dict(exclude_none=True)
    return _edited(request, edits.pool_set(slug, {"class" if name == "klass" else name: facts[name] for name in facts}))


@router.delete("/fleet/pools/{slug}", auth=ADMIN, response=FleetEditOut, summary="Remove a pool")
def fleet_pool_remove(request: HttpRequest, slug: str) -> Raw:
    """Its devices are retired; refused while contracts hold its time."""
    return _edited(request, edits.pool_remove(slug))


@router.post("/fleet/pools/{slug}/costs", auth=ADMIN, response=FleetEditOut, summary="State what a pool's devices cost")
@idempotent
def fleet_cost_set(request: HttpRequest, slug: str, payload: FleetCostIn) -> Raw:
    """From `begins` on; one that begins at the same instant is replaced."""
    facts = payload.dict()
    return _edited(request, edits.cost_set(slug, {"from": facts.pop("begins"), **facts}))


@router.post("/fleet/pools/{slug}/devices", auth=ADMIN, response=FleetEditOut, summary="Add devices to a pool")
@idempotent
def fleet_devices_add(request: HttpRequest, slug: str, payload: FleetDevicesIn) -> Raw:
    """They take new windows at once where their state is active."""
    return _edited(request, edits.devices_add(slug, payload.count, payload.state))


@router.put(
    "/fleet/pools/{slug}/devices/{name}", auth=ADMIN, response=FleetEditOut, summary="Give a device another state"
)
def fleet_device_set(request: HttpRequest, slug: str, name: str, payload: FleetDeviceIn) -> Raw:
    """What it holds moves to other devices of its pool, at the same instants."""
    return _edited(request, edits.device_set(slug, name, payload.state))


@router.delete("/fleet/pools/{slug}/devices/{name}", auth=ADMIN, response=FleetEditOut, summary="Retire a device")
def fleet_device_retire(request: HttpRequest, slug: str, name: str) -> Raw:
    """It is owned no more and costs nothing from now on."""
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
