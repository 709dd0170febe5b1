"""A small market: a price book, two pools, programs with any counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from uuid import uuid4

from django.test import Client

from apps.accounts.models import Organisation, User
from apps.compilation.models import CompileJob, Program
from apps.fleet.models import Device, Pool, PoolKind, ProcessorVersion, Site
from apps.pricing.models import PriceBook
from apps.pricing.services import pricebook_publish
from apps.registry.models import Model, ModelVersion, Project
from apps.sales.price_marks import PRICE_FIELD
from tests.pricing.rating.books import document

START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 11, 24, 10, 30, tzinfo=UTC)  # a Tuesday, 11:30 in Berlin: peak
CLOCK = 900_000_000


@dataclass
class Market:
    """What is for sale, and a maker of programs."""

    book: PriceBook
    lpu: Pool
    lpu2: Pool
    host: Pool
    processors: dict[str, ProcessorVersion] = field(default_factory=dict)

    def program(
        self,
        organisation: Organisation,
        user: User,
        *,
        operations: int = 704_000_000,
        interval: int = 90_000,
        latency: int = 120_000,
        target: str = "lpu",
        name: str | None = None,
        exact: bool = True,
    ) -> Program:
        """A stored program with these counts."""
        name = name or f"model-{uuid4().hex[:8]}"
        project, _ = Project.objects.get_or_create(
            organisation=organisation, name="Default", defaults={"created_at": START}
        )
        model = Model.objects.create(organisation=organisation, project=project, name=name, created_at=START)
        unique = uuid4().bytes
        version = ModelVersion.objects.create(
            organisation=organisation,
            model=model,
            number=1,
            sha256=sha256(unique).hexdigest(),
            size=1000,
            filename=f"{name}.onnx",
            storage_key=f"models/{name}",
            opset=17,
            inputs=[],
            outputs=[],
            created_by=user,
            created_at=START,
        )
        job = CompileJob.objects.create(
            organisation=organisation,
            model_version=version,
            created_by=user,
            target=target,
            created_at=START,
            state=CompileJob.State.DONE,
            finished_at=START,
        )
        return Program.objects.create(
            organisation=organisation,
            model_version=version,
            compile_job=job,
            target=target,
            target_digest=self.processors[target].digest,
            precision="float32",
            dims={"batch": 1},
            constants={},
            options_digest="0" * 64,
            compiler_version="1",
            digest=sha256(b"program" + unique).hexdigest(),
            binary_bytes=1,
            binary_key="x",
            report_key="x",
            inputs=[],
            outputs=[],
            resources={},
            bounds={},
            exact=exact,
            reason="" if exact else "a loop ends when its data says so",
            latency_cycles=latency,
            interval_cycles=interval,
            clock_hz=CLOCK,
            operations=operations,
            executed_operations=operations,
            created_at=START,
        )


def open_market(*, devices: int = 1, change: Callable[[dict[str, Any]], object] | None = None) -> Market:
    """A published book (the shipped one, with a change), one pool of each kind with so many devices; the market that is
    open already, where there is one."""
    if Site.objects.filter(slug="here").exists():
        return _open_already()
    site = Site.objects.create(slug="here", name="Here")
    processors = {
        name: ProcessorVersion.objects.create(
            name=name, digest=sha256(name.encode()).hexdigest(), clock_hz=CLOCK, memory_bytes=2**27, created_at=START
        )
        for name in ("lpu", "lpu2")
    }
    pools = {
        slug: Pool.objects.create(
            slug=slug,
            name=slug,
            kind=PoolKind.HOST if target is None else PoolKind.SIMULATED,
            processor=processors[target] if target else None,
            processor_class=target or "host",
            site=site,
            created_at=START,
        )
        for slug, target in (("lpu-a", "lpu"), ("lpu2-b", "lpu2"), ("host-cpu", None))
    }
    for pool in pools.values():
        for number in range(devices):
            Device.objects.create(pool=pool, name=f"{pool.slug}-{number}")
    book = pricebook_publish(document=document(change), effective_from=START, now=START)
    return Market(book, pools["lpu-a"], pools["lpu2-b"], pools["host-cpu"], processors)


def _open_already() -> Market:
    pools = {pool.slug: pool for pool in Pool.objects.select_related("processor", "site")}
    book = PriceBook.objects.order_by("version").last()
    assert book is not None
    processors = {one.name: one for one in ProcessorVersion.objects.filter(name__in=("lpu", "lpu2"))}
    return Market(book, pools["lpu-a"], pools["lpu2-b"], pools["host-cpu"], processors)


def seen(client: Client, data: dict[str, Any]) -> dict[str, Any]:
    """These fields of the builder with the price that its page shows for them, as the page's form sends them."""
    return {**data, PRICE_FIELD: dict(client.get("/quotes/new/preview", data).context["make"])[PRICE_FIELD]}
