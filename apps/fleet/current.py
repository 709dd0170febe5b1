"""The current fleet as one document."""

from __future__ import annotations

from datetime import UTC
from functools import cache

from django.db.models import Prefetch

from apps.accounts.problems import Problem
from apps.fleet.document import Cost, Document, DocumentError, Site, check, parse
from apps.fleet.document import Pool as PoolFacts
from apps.fleet.document.model import HOST
from apps.fleet.models import Device, Pool, PoolCost, ProcessorVersion
from apps.fleet.models import Site as SiteRow
from compiler import targets


@cache
def shipped() -> dict[str, str]:
    """Raised if the stored binary is not the binary that was sold."""
    return {name: targets.load(name).price_class for name in targets.names()}


def document_now() -> Document:
    """Return the current fleet: sites, custom processors, and pools with the devices in use."""
    owned = Prefetch("devices", queryset=Device.objects.filter(owned_until__isnull=True))
    pools = Pool.objects.filter(is_active=True).select_related("processor", "site").prefetch_related(owned, "costs")
    return Document(
        sites={site.slug: Site(site.name, site.time_zone) for site in SiteRow.objects.filter(is_active=True)},
        processors=dict(ProcessorVersion.objects.filter(is_offered=True).values_list("name", "text")),
        pools={pool.slug: _pool(pool) for pool in pools},
    )


def document_parse(data: bytes | str) -> Document:
    """Parse a fleet file. Raises Problem(422) with all faults."""
    try:
        return parse(data, known=shipped())
    except DocumentError as error:
        raise document_problem(error) from error


def document_check(raw: object) -> Document:
    """Check a document given as plain data. Raises Problem(422) with all faults."""
    try:
        return check(raw, known=shipped())
    except DocumentError as error:
        raise document_problem(error) from error


def document_stored(raw: object) -> Document:
    """Parse a stored document, which was checked before it was stored."""
    return check(raw, known=None)


def document_problem(error: DocumentError) -> Problem:
    """Return a Problem that lists the faults of a document."""
    errors = [{"place": fault.place, "message": fault.said} for fault in error.faults]
    return Problem(422, "The fleet file has errors", str(error), kind="fleet-file", errors=errors)


def _pool(pool: Pool) -> PoolFacts:
    return PoolFacts(
        name=pool.name,
        site=pool.site.slug,
        processor=pool.processor.name if pool.processor else HOST,
        klass=pool.processor_class,
        devices={device.name: device.state for device in pool.devices.all()},
        costs=tuple(cost_of(cost) for cost in pool.costs.all()),
        power_percent=pool.power_percent,
    )


def cost_of(row: PoolCost) -> Cost:
    """Convert a stored cost to a document's `Cost`."""
    return Cost(
        row.begins.astimezone(UTC),
        row.currency,
        row.capital.normalize(),
        row.months,
        row.watts.normalize(),
        row.energy_price.normalize(),
        row.pue.normalize(),
    )
