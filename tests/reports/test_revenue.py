"""Revenue is what the ledger holds, parted in three ways; another book rates the same usage again."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.ledger.models import UsageRow
from apps.pricing.rating import exact_sum
from apps.pricing.services import pricebook_publish
from apps.reports.revenue import GROUPS, revenue
from tests.cast import Cast
from tests.dispatch.scene import Scene
from tests.pricing.rating.books import document
from tests.sales.market import open_market

pytestmark = pytest.mark.django_db
SECOND = 900_000_000  # cycles
SECONDS = timedelta(seconds=1)


@pytest.fixture
def scene(cast: Cast) -> Scene:
    return Scene(open_market(devices=2), cast, timezone.now())


def doubled(book: dict[str, Any]) -> None:
    book["version"] = 2
    for prices in book["prices"].values():
        for precision, price in prices.items():
            prices[precision] = str(2 * Decimal(price))


def worked(scene: Scene) -> None:
    program = scene.program(interval=SECOND, latency=SECOND)
    for klass in ("standard", "priority"):
        scene.run(scene.job(scene.contract((program, 20), klass=klass, window=timedelta(hours=2)), 20))


def test_the_parts_sum_to_what_the_ledger_holds(scene: Scene) -> None:
    worked(scene)
    report = revenue(month=UsageRow.objects.earliest("created_at").created_at, currency="EUR")
    whole = exact_sum(UsageRow.objects.values_list("amount", flat=True))
    assert report.whole.amount == whole > 0
    for group in GROUPS:
        assert exact_sum(part.amount for part in report.parts[group]) == whole
        assert sum(part.executions for part in report.parts[group]) == 40
    assert {part.name for part in report.parts["class"]} == {"standard", "priority"}
    (used,) = (one for one in report.pools if one.amount)
    assert used.executed == timedelta(seconds=40)
    assert used.available == 2 * (report.end - report.start)
    assert used.share == Fraction(used.executed // SECONDS, used.available // SECONDS)
    assert revenue(month=report.end, currency="EUR").whole.executions == 0


def test_another_book_rates_the_same_usage_again(scene: Scene) -> None:
    worked(scene)
    now = timezone.now()
    dearer = pricebook_publish(document=document(doubled), effective_from=now + timedelta(days=90), now=now)
    report = revenue(month=now, currency="EUR", book=dearer)
    for part in (report.whole, *report.parts["class"], *report.parts["customer"]):
        assert (part.other, part.difference, part.unpriced) == (2 * part.amount, part.amount, 0)
    same = revenue(month=now, currency="EUR", book=scene.market.book)
    assert same.whole.difference == 0


def test_the_page_the_file_and_the_api_agree(scene: Scene, as_user: Callable[[User], Client]) -> None:
    worked(scene)
    client = as_user(scene.cast.admin)
    amount = exact_sum(UsageRow.objects.values_list("amount", flat=True))
    page = client.get("/revenue?book=1").content.decode()
    assert scene.cast.organisation.name in page
    assert "By version 1" in page
    answer = client.get("/api/v1/revenue?book=1").json()
    assert Decimal(answer["whole"]["amount"]) == Decimal(answer["whole"]["other_book"]) == amount
    rows = list(csv.DictReader(io.StringIO(client.get("/revenue?format=csv").content.decode())))
    assert exact_sum(Decimal(row["amount"]) for row in rows if row["by"] == "pool") == amount
    assert client.get("/api/v1/revenue?book=99").status_code == 422
    assert client.get("/revenue?month=nonsense&book=x").status_code == 200
