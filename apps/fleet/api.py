"""JSON API of the pools for which customers can plan and buy work."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import Router, Schema

from apps.accounts.auth import requires
from apps.accounts.roles import Scope
from apps.fleet import selectors
from apps.fleet.models import Pool

router = Router(tags=["fleet"])


class PoolOut(Schema):
    slug: str
    name: str
    kind: str
    target: str | None
    target_digest: str | None
    processor_class: str
    site: str
    time_zone: str
    devices: int

    @staticmethod
    def resolve_target_digest(pool: Pool) -> str | None:
        return pool.processor.digest if pool.processor else None

    @staticmethod
    def resolve_site(pool: Pool) -> str:
        return pool.site.name

    @staticmethod
    def resolve_time_zone(pool: Pool) -> str:
        return pool.site.time_zone

    @staticmethod
    def resolve_devices(pool: Pool) -> int:
        return len(pool.devices.all())


@router.get("/pools", auth=requires(Scope.READ), response=list[PoolOut], summary="Active pools")
def pool_list(request: HttpRequest) -> list[Pool]:
    """Lists the active pools."""
    return list(selectors.pools())
