"""Revenue is what the ledger holds, margin what is left of it after the cost of all that is owned, in any parting."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from copy import deepcopy
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from html import unescape
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from apps.accounts.models import User
from apps.dispatch.models import Lease
from apps.invoicing.services import credit_note_issue, invoice_issue
from apps.ledger.models import UsageRow
from apps.ledger.selectors import month_of
from apps.pricing.rating import exact_sum
from apps.pricing.services import pricebook_publish
from apps.reports.costs import costrate_set, seconds_of
from apps.reports.models import CostRate, Rerating
from apps.reports.rerating import GROUPS, parts_of, rerating_request, rerating_run
from apps.reports.revenue import Part, Revenue, revenue
from tests.cast import Cast
from tests.dispatch.scene import Scene
from tests.pricing.rating.books import document
from tests.sales.market import open_market

pytestmark = pytest.mark.django_db
SECOND = 900_000_000  # cycles
LATER = timedelta(days=40)  # after the month in which anything ran


@pytest.fixture(scope="module")
def worked(shared_cast: Cast) -> Scene:
    """Twenty executions of each of two classes at the start of a month, so that all device time falls in that month."""
    start, _ = month_of(timezone.now())
    scene = Scene(open_market(devices=2), shared_cast, start)
    program = scene.program(interval=SECOND, latency=SECOND)
    for klass in ("standard", "priority"):
        scene.run(scene.job(scene.contract((program, 20), klass=klass, window=timedelta(hours=2)), 20))
    return scene


@pytest.fixture
def scene(worked: Scene, db: None) -> Scene:
    return deepcopy(worked)


def doubled(book: dict[str, Any]) -> None:
    book["version"] = 2
    for prices in book["prices"].values():
        for precision, price in prices.items():
            prices[precision] = str(2 * Decimal(price))


def cost(scene: Scene, klass: str, per_hour: str, start: datetime) -> CostRate:
    return costrate_set(
        processor_class=klass,
        per_hour=Decimal(per_hour),
        currency="EUR",
        effective_from=start,
        note="",
        actor=scene.cast.admin,
        now=timezone.now(),
    )


def reported(scene: Scene, month: datetime | None = None) -> Revenue:
    return revenue(month=month or scene.now, currency="EUR", now=scene.now + LATER)


def pool(report: Revenue, name: str) -> Part:
    return next(part for part in report.parts["pool"] if part.name == name)


def test_the_parts_sum_to_what_the_ledger_holds(scene: Scene) -> None:
    report = reported(scene)
    whole = exact_sum(UsageRow.objects.values_list("amount", flat=True))
    assert report.whole.amount == whole > 0
    for parts in report.parts.values():
        assert exact_sum(part.amount for part in parts) == whole
        assert sum(part.executions for part in parts) == 40
        assert sum(part.ran.seconds for part in parts) == 40
    assert {part.name for part in report.parts["class"]} == {"standard", "priority"}
    used = pool(report, "lpu-a")
    assert used.owned is not None
    assert used.owned.seconds == 2 * seconds_of(report.end - report.start)
    assert used.share == Fraction(40, 2 * (report.end - report.start) // timedelta(seconds=1))
    assert reported(scene, report.end).whole.executions == 0


def test_what_credit_notes_took_back_is_taken_off_once(scene: Scene) -> None:
    cost(scene, "lpu", "3.7", scene.now - timedelta(days=400))
    before = reported(scene).whole
    invoice = invoice_issue(organisation=scene.cast.organisation, actor=None, now=scene.now + LATER)
    taken = scene.now + timedelta(days=3)  # in the month, to be seen in it
    lines = {line.number: line for line in invoice.lines.all()}
    number = next(iter(lines))
    note = credit_note_issue(
        invoice_id=invoice.id, parts={number: lines[number].share}, reason="slow", actor=None, now=taken
    )
    report = reported(scene)
    credited = exact_sum(note.lines.values_list("amount", flat=True))
    assert (report.whole.amount, report.whole.credited) == (before.amount, credited)
    assert credited == lines[number].amount > 0
    for parts in report.parts.values():
        assert exact_sum(part.credited for part in parts) == credited
        assert exact_sum(part.net for part in parts) == report.whole.net == before.amount - credited
    assert reported(scene, report.end).whole.net == 0


def test_revenue_less_what_ran_less_what_was_idle_is_the_margin(scene: Scene) -> None:
    start, _ = month_of(scene.now)
    for klass, per_hour in (("lpu", "3.7"), ("lpu2", "5"), ("host", "0.01")):
        cost(scene, klass, per_hour, start - timedelta(days=400))
    begins = Lease.objects.earliest("device_from").device_from + timedelta(seconds=7)
    cost(scene, "lpu", "11.1", begins)  # while it runs
    report = reported(scene)
    whole = report.whole
    assert whole.margin is not None
    assert whole.idle_cost is not None
    assert whole.ran.cost is not None
    assert whole.margin == Fraction(whole.amount) - whole.ran.cost - whole.idle_cost
    assert whole.margin == sum(Fraction(part.margin or 0) for part in report.parts["pool"])
    for group in ("class", "customer"):
        assert sum(Fraction(part.margin or 0) for part in report.parts[group]) - whole.idle_cost == whole.margin
    hours = Fraction((report.end - report.start) // timedelta(seconds=1), 3600)
    before = Fraction((begins - report.start) // timedelta(microseconds=1), 3600 * 10**6)
    used = pool(report, "lpu-a")
    assert used.owned is not None
    assert used.owned.cost == 2 * (before * Fraction("3.7") + (hours - before) * Fraction("11.1"))
    assert used.ran.cost is not None
    assert 40 * Fraction("3.7") < used.ran.cost * 3600 < 40 * Fraction("11.1")
    other = pool(report, "lpu2-b")
    assert (other.margin, other.ran.seconds) == (-2 * hours * 5, 0)


def test_what_is_not_known_says_so_and_is_not_nothing(scene: Scene) -> None:
    start, _ = month_of(scene.now)
    cost(scene, "lpu2", "5", start - timedelta(days=400))
    cost(scene, "lpu", "3", start + timedelta(hours=1))
    report = reported(scene)
    assert pool(report, "lpu2-b").margin is not None
    begun = f"{start + timedelta(hours=1):%Y-%m-%d %H:%M} UTC"
    assert pool(report, "lpu-a").unknown == f"No cost has been entered for class lpu for the time before {begun}."
    assert pool(report, "host-cpu").unknown == "No cost has been entered for class host."
    assert report.whole.margin is None
    assert all(part.margin is None for part in report.parts["customer"])  # it ran before the rate began
    cost(scene, "lpu", "2", start)  # entered later, for what was unknown
    assert all(part.margin is not None for part in reported(scene).parts["customer"])


def test_another_book_rates_the_same_usage_again(scene: Scene) -> None:
    now = timezone.now()
    dearer = pricebook_publish(document=document(doubled), effective_from=now + timedelta(days=90), now=now)
    asked = rerating_request(book=dearer, month=scene.now, asked_by=None, now=now)
    assert (asked.rows_total, asked.finished_at) == (UsageRow.objects.count(), None)
    for _ in range(2):  # a worker that is given it twice
        done = rerating_run(pk=asked.pk, now=now)
    assert done.rows_done == done.rows_total > 0
    parts = parts_of(done)
    for part in (*parts["whole"], *parts["class"], *parts["customer"], *parts["pool"]):
        assert (part.other, part.difference, part.unpriced) == (2 * part.amount, part.amount, 0)
    for group in GROUPS:
        assert (
            exact_sum(part.amount for part in parts[group]) == parts["whole"][0].amount == reported(scene).whole.amount
        )
    same = rerating_run(
        pk=rerating_request(book=scene.market.book, month=scene.now, asked_by=None, now=now).pk, now=now
    )
    assert parts_of(same)["whole"][0].difference == 0
    with pytest.raises(IntegrityError, match="never changes"), transaction.atomic():
        Rerating.objects.filter(pk=done.pk).update(rows_done=0)


def test_the_page_the_file_and_the_api_agree(scene: Scene, as_user: Callable[[User], Client]) -> None:
    for klass in ("lpu", "lpu2", "host"):
        cost(scene, klass, "3", scene.now - timedelta(days=400))
    client = as_user(scene.cast.admin)
    amount = exact_sum(UsageRow.objects.values_list("amount", flat=True))
    month = f"{scene.now:%Y-%m}"
    assert scene.cast.organisation.name in client.get("/revenue").content.decode()
    answer = client.get(f"/api/v1/revenue?month={month}-01").json()
    assert Decimal(answer["whole"]["amount"]) == amount
    rows = list(csv.DictReader(io.StringIO(client.get(f"/revenue?month={month}&format=csv").content.decode())))
    assert exact_sum(Decimal(row["amount"]) for row in rows if row["by"] == "pool") == amount
    ran = {row["name"]: row["cost_ran"] for row in rows if row["by"] == "class"}
    assert ran == {one["name"]: one["cost_ran"] for one in answer["by_class"]}
    for wrong in ("nonsense", "0001-01", "2026-13", "😀"):
        assert "No such month" in client.get("/revenue", {"month": wrong}).content.decode()
    assert client.get("/api/v1/revenue?month=nonsense").status_code == 422


def test_a_rerating_is_watched_and_read(
    scene: Scene, as_user: Callable[[User], Client], django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    client = as_user(scene.cast.admin)
    with django_capture_on_commit_callbacks():  # the worker comes later
        place = client.post("/revenue/ratings", {"book": "1", "month": f"{scene.now:%Y-%m}"})["Location"]
    assert "0 of " in client.get(place).content.decode()
    rerating_run(pk=Rerating.objects.get().pk, now=timezone.now())
    fragment = unescape(client.get(place, headers={"HX-Request": "true"}).content.decode())
    assert scene.cast.organisation.name in fragment
    assert "<html" not in fragment
    assert "hx-get" not in fragment
    assert client.get(f"/api/v1{place}").json()["result"]["whole"]["unpriced"] == 0
    for wrong in ("", "99", "x", "٣", "9" * 30):
        assert client.post("/revenue/ratings", {"book": wrong}).status_code == 422
    with django_capture_on_commit_callbacks():
        answer = client.post("/api/v1/revenue/ratings", {"book": 1}, content_type="application/json")
    assert (answer.status_code, answer.json()["result"]) == (202, None)
