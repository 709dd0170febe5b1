"""The administrator's dashboard says how the platform stands, and what needs attention."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.accounts.models import User
from apps.compilation.models import CompileJob
from apps.dispatch.models import Job
from apps.fleet.models import Device, DeviceState
from apps.reports.home import home
from apps.reports.models import ReconciliationRun
from tests.cast import Cast
from tests.dispatch.scene import Scene
from tests.sales.market import NOW, open_market

pytestmark = pytest.mark.django_db
SignIn = Callable[[User], Client]
PLACE = "/administration"


def text_of(browser: Client) -> str:
    return " ".join(browser.get(PLACE).content.decode().split())


def test_an_administrator_without_an_organisation_lands_on_the_platform(cast: Cast, as_user: SignIn) -> None:
    answer = as_user(cast.admin).get("/")
    assert (answer.status_code, answer["Location"]) == (302, PLACE)


def test_members_do_not_find_it(cast: Cast, as_user: SignIn) -> None:
    assert as_user(cast.owner).get(PLACE).status_code == 404


def test_an_empty_platform_says_what_is_missing(cast: Cast, as_user: SignIn) -> None:
    text = text_of(as_user(cast.admin))
    assert "No pools yet." in text
    assert "No reconciliation has finished yet." in text
    assert "no price book is in force" in text
    assert "No job or compile failed in the last 24 hours." in text


def test_what_needs_attention_is_listed_with_its_page(cast: Cast, as_user: SignIn) -> None:
    now = timezone.now()
    market = open_market()
    scene = Scene(market, cast)
    job = scene.job(scene.contract((scene.program(), 50)), 1)
    Job.objects.filter(pk=job.pk).update(state="failed", finished_at=now, problem="The inputs cannot be read.")
    device = market.lpu.devices.earliest("name")
    Device.objects.filter(pk=device.pk).update(state=DeviceState.FAILED)
    run = ReconciliationRun.objects.create(started_at=now, finished_at=now, differences=3)
    text = text_of(as_user(cast.admin))
    for sentence in (
        "The last reconciliation found 3 differences.",
        "1 device failed.",
        "1 job failed in the last 24 hours.",
        "The inputs cannot be read.",
        "No worker serves pool lpu-a; its jobs are waiting.",
        f'href="/reconciliations/{run.pk}"',
        f'href="/customers/{cast.organisation.pk}"',
    ):
        assert sentence in text, sentence


def test_figures_are_those_of_the_pools(cast: Cast) -> None:
    scene = Scene(open_market(devices=2), cast)
    slow = scene.program(interval=54_000_000_000, latency=54_000_000_000)  # a minute
    contract = scene.contract((slow, 50), window=timedelta(hours=2))
    scene.job(contract, 5)
    found = home(now=NOW)
    assert found.capacity.whole.sold == 50 * 60_000_000
    assert found.waiting == 5
    assert (found.running, found.slowest, found.refusals) == (0, None, 0)


def test_what_failed_more_than_a_day_ago_is_left_out(cast: Cast) -> None:
    now = timezone.now()
    scene = Scene(open_market(), cast)
    job = scene.job(scene.contract((scene.program(), 50)), 1)
    Job.objects.filter(pk=job.pk).update(state="failed", finished_at=now - timedelta(hours=25))
    assert home(now=now).failures.count == 0
    assert not CompileJob.objects.filter(state="failed").exists()


def test_a_late_reconciliation_is_said(cast: Cast) -> None:
    now = timezone.now()
    ReconciliationRun.objects.create(started_at=now, finished_at=now - timedelta(hours=27))
    assert "No reconciliation has finished in the last 26 hours." in [one.text for one in home(now=now).notices]


def test_the_number_of_queries_does_not_grow(cast: Cast, as_user: SignIn) -> None:
    browser, now = as_user(cast.admin), timezone.now()
    scene = Scene(open_market(), cast)
    contract = scene.contract((scene.program(), 50))
    counts = []
    for _ in range(2):
        for _ in range(3):
            job = scene.job(contract, 1)
            Job.objects.filter(pk=job.pk).update(state="failed", finished_at=now)
        browser.get(PLACE)
        with CaptureQueriesContext(connection) as caught:
            browser.get(PLACE)
        counts.append(len(caught))
    assert counts[0] == counts[1]


def test_htmx_fetches_the_changing_part_alone(cast: Cast, as_user: SignIn) -> None:
    answer = as_user(cast.admin).get(PLACE, headers={"HX-Request": "true"}).content.decode()
    assert answer.lstrip().startswith('<div class="stack" id="platform"')
    assert 'data-age="0"' in answer
