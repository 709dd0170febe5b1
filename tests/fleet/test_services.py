"""The fleet: pools, heartbeats and measurements."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.problems import Problem
from apps.fleet import selectors, services, storing
from apps.fleet.models import Device, Pool, PoolKind
from apps.fleet.services import _percentile
from tests.fleet.pools import host_pool_make, pool_make

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.django_db
def test_ensuring_a_pool_twice_makes_no_second_device() -> None:
    pool_make("lpu-a", devices=2, now=NOW)
    pool_make("lpu-a", devices=2, now=NOW)
    assert Device.objects.count() == 2
    assert selectors.pool_slugs() == ["lpu-a"]


@pytest.mark.django_db
def test_a_pool_moves_to_the_new_digest_of_its_target() -> None:
    old = pool_make("lpu-a", devices=1, now=NOW)
    new = pool_make("lpu-a", devices=1, now=NOW, digest="b" * 64)
    assert old.pk == new.pk
    assert new.processor is not None
    assert new.processor.digest == "b" * 64


@pytest.mark.django_db
def test_a_host_pool_has_no_processor_version_and_a_simulated_one_has() -> None:
    pool = host_pool_make("host-cpu", now=NOW)
    assert pool.target is None
    with pytest.raises(IntegrityError), transaction.atomic():
        Pool.objects.filter(pk=pool.pk).update(kind=PoolKind.SIMULATED)


def test_who_waits_for_another_change_of_the_fleet_is_told_so(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "LOCK_TIMEOUT", "50ms")

    def change() -> None:
        try:
            with transaction.atomic():
                storing.fleet_lock()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as other, transaction.atomic():
        storing.fleet_lock()
        with pytest.raises(Problem, match="Somebody else is changing the fleet") as refused:
            other.submit(change).result()
    assert (refused.value.status, refused.value.kind) == (503, "fleet-busy")
    change()


@pytest.mark.django_db
def test_a_heartbeat_makes_the_host_alive_until_it_falls_silent() -> None:
    pool_make("lpu-a", devices=1, now=NOW)
    host = services.workerhost_seen(name="far", pool_slug="lpu-a", concurrency=2, is_start=True, now=NOW)
    later = NOW + timedelta(seconds=10)
    host = services.workerhost_seen(name="far", pool_slug="lpu-a", concurrency=2, is_start=False, now=later)
    assert host.started_at == NOW
    assert host.is_alive(now=later + timedelta(seconds=19))
    assert not host.is_alive(now=later + timedelta(seconds=20))


@pytest.mark.django_db
def test_a_heartbeat_for_an_unknown_pool_names_the_known_ones() -> None:
    pool_make("lpu-a", devices=1, now=NOW)
    with pytest.raises(Problem, match="lpu-a"):
        services.workerhost_seen(name="far", pool_slug="lpu-z", concurrency=1, is_start=True, now=NOW)


@pytest.mark.django_db
def test_a_measurement_is_dated_and_the_newest_counts() -> None:
    pool = host_pool_make("host-cpu", now=NOW)
    for minutes, value in ((0, 5_000), (1, 7_000)):
        services.hostmeasurement_record(
            pool=pool,
            program_digest="p" * 64,
            durations_ns=[value] * 20,
            hardware="a CPU",
            now=NOW + timedelta(minutes=minutes),
        )
    latest = selectors.host_measurement_latest(pool=pool, program_digest="p" * 64)
    assert latest is not None
    assert (latest.p50_ns, latest.samples, latest.measured_at) == (7_000, 20, NOW + timedelta(minutes=1))
    assert selectors.host_measurement_latest(pool=pool, program_digest="q" * 64) is None


@pytest.mark.django_db
def test_a_deterministic_pool_is_not_measured() -> None:
    pool = pool_make("lpu-a", devices=1, now=NOW)
    with pytest.raises(ValueError, match="proven"):
        services.hostmeasurement_record(pool=pool, program_digest="p", durations_ns=[1], hardware="x", now=NOW)


@given(st.lists(st.integers(1, 1000), min_size=1), st.integers(1, 99))
def test_a_percentile_is_reached_by_that_share_and_by_no_smaller_value(values: list[int], percent: int) -> None:
    ordered = sorted(values)
    found = _percentile(ordered, percent)
    assert 100 * sum(value <= found for value in ordered) >= percent * len(ordered)
    assert 100 * sum(value < found for value in ordered) < percent * len(ordered)
