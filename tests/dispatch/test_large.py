"""A model with its weights in a side file through real services, as `benchmarks.large --site` takes one of gigabytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer

from apps.accounts.roles import Scope
from apps.accounts.services import token_create
from benchmarks.large import made
from benchmarks.large_site import Site, walk
from tests.cast import PASSWORD, Cast
from tests.sales.market import open_market
from tests.workers import Crew

QUEUES = ("default", "check", "compile", "dispatch", "pool-host-cpu")
CHECK, COMPILE = "apps.registry.inspection.child", "apps.compilation.child"


@pytest.mark.parametrize("way", ["form", pytest.param("pieces", marks=pytest.mark.thorough)])
def test_a_model_with_side_files_goes_through_the_site_to_a_job_on_the_host(
    cast: Cast, live_server: LiveServer, celery_worker: Crew, tmp_path: Path, way: str
) -> None:
    size = made(tmp_path, layers=2, width=4096)
    open_market()
    scopes = [Scope.READ, Scope.BUILD, Scope.BUY, Scope.RUN]
    _, token = token_create(
        user=cast.owner, organisation=cast.organisation, name="test", scopes=scopes, now=timezone.now()
    )
    processes = {"worker": celery_worker.start(*QUEUES), "beat": celery_worker.beat(tmp_path)}
    found = walk(Site(live_server.url, token, cast.owner.email, PASSWORD, processes), tmp_path, way=way)
    assert found.is_equal
    assert found.facts["external"] >= 2 * 4096**2  # the weights are beside the processor's memory
    assert found.facts["cost"] <= found.facts["net"]
    assert found.watch.whole[CHECK] < size + 150_000_000  # the weights are mapped there, and nowhere a second time
    assert found.watch.own[COMPILE] < 2 * size + 200_000_000
