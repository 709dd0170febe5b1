"""The target pages and the administrator's fleet page."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.fleet import seed, services
from apps.fleet.current import document_now
from apps.fleet.models import Device, Pool, ProcessorVersion
from compiler import targets
from tests.cast import Cast

SignIn = Callable[[User], Client]


def test_every_processor_version_is_listed_with_its_pools(cast: Cast, as_user: SignIn) -> None:
    seed.fleet_seed(now=timezone.now())
    page = as_user(cast.viewer).get("/targets")
    for name in targets.names():
        assert name in page.content.decode()
    assert "lpu-a" in page.content.decode()
    assert "measured, not proven" in page.content.decode()


def test_a_target_shows_every_figure_with_its_source(cast: Cast, as_user: SignIn) -> None:
    text = as_user(cast.viewer).get("/targets/lpu").content.decode()
    for path, (_, source) in list(targets.load("lpu").figures.items())[:5]:
        assert path in text
        assert source.split(":")[0] in text
    assert as_user(cast.viewer).get("/targets/none").status_code == 404


def test_the_administrator_sees_who_serves_which_pool_and_who_fell_silent(cast: Cast, as_user: SignIn) -> None:
    now = timezone.now()
    seed.fleet_seed(now=now)
    beats = (("near", now), ("far", now - timedelta(minutes=2)))
    for name, seen in beats:
        services.workerhost_seen(name=name, pool_slug="lpu-a", concurrency=2, is_start=True, now=seen)
    text = as_user(cast.admin).get("/fleet").content.decode()
    assert text.index("near") < text.index("far")
    assert "silent" in text
    assert "No worker host serves this pool" in text


def test_the_seed_may_run_again(cast: Cast) -> None:
    for _ in range(2):
        seed.seed(now=timezone.now(), organisation=cast.organisation, owner=cast.owner, admin=cast.admin)
    assert Device.objects.count() == 4


def test_the_api_lists_the_pools(cast: Cast, as_user: SignIn) -> None:
    seed.fleet_seed(now=timezone.now())
    pools = as_user(cast.viewer).get("/api/v1/pools").json()
    assert [(pool["slug"], pool["target"], pool["devices"]) for pool in pools] == [
        ("host-cpu", None, 1),
        ("lpu-a", "lpu", 2),
        ("lpu2-b", "lpu2", 1),
    ]


def test_the_seed_brings_nothing_back_that_an_administrator_removed(cast: Cast) -> None:
    seed.fleet_seed(now=timezone.now())
    Pool.objects.filter(slug="lpu2-b").update(is_active=False)
    Device.objects.filter(name="lpu-a-1").update(state="draining", owned_until=timezone.now())
    before = document_now()
    seed.fleet_seed(now=timezone.now())
    assert document_now() == before


def test_the_seed_moves_pools_to_the_present_description_of_their_processor(cast: Cast) -> None:
    seed.fleet_seed(now=timezone.now())
    ProcessorVersion.objects.filter(name="lpu").update(digest="0" * 64)
    seed.fleet_seed(now=timezone.now())
    processor = Pool.objects.get(slug="lpu-a").processor
    assert processor is not None
    assert processor.digest == targets.load("lpu").digest
