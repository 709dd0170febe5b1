"""The administrator's way to a price book: every fault by its place, what it changes, and only then published."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from apps.accounts.models import AuditEntry, User
from apps.pricing.models import PriceBook
from apps.reports.models import Rerating
from apps.reports.rerating import rerating_run
from tests.cast import Cast
from tests.pricing.rating.books import document
from tests.reports.test_revenue import doubled
from tests.sales.tenancy import a_contract_of
from tests.sales.test_contracts import run

pytestmark = pytest.mark.django_db
PLACE = "/prices/new"


@pytest.fixture
def admin(cast: Cast, as_user: Callable[[User], Client]) -> Client:
    run(a_contract_of(cast), 1000, now=timezone.now())
    return as_user(cast.admin)


def _asked(change: Callable[[dict[str, Any]], None] = doubled, *, days: int = 60, **more: Any) -> dict[str, Any]:
    start = timezone.now() + timedelta(days=days)
    return {
        "text": json.dumps(document(change)),
        "effective_from": f"{start:%Y-%m-%dT%H:%M}",
        "action": "preview",
        **more,
    }


def test_a_book_is_looked_at_and_then_published(
    admin: Client, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    sent = _asked()
    with django_capture_on_commit_callbacks() as later:
        page = unescape(admin.post(PLACE, sent).content.decode())
    assert "prices.lpu.float32" in page
    assert PriceBook.objects.count() == 1

    assert len(later) == 2  # the last month and this one, for a worker
    assert "0 of 1 rows are rated with price book 2" in page
    for asked in Rerating.objects.all():
        assert f'hx-get="/revenue/ratings/{asked.pk}"' in page
        rerating_run(pk=asked.pk, now=timezone.now())
    month = Rerating.objects.order_by("start").last()
    assert month is not None
    assert "0.011264" in admin.get(f"/revenue/ratings/{month.pk}").content.decode()  # twice 0.005632, a thousand times
    assert admin.post(PLACE, {**sent, "action": "publish"}).status_code == 302
    assert PriceBook.objects.order_by("-version")[0].version == 2
    assert AuditEntry.objects.filter(action="price-book.publish").count() == 1
    assert "New price book" in admin.get("/prices").content.decode()


def _broken(book: dict[str, Any]) -> None:
    book["version"] = 2
    book["prices"]["lpu"]["float32"] = "-1"
    book["classes"]["batch"]["discount"] = "cheap"


def test_a_faulty_book_is_refused_with_every_place(admin: Client) -> None:
    for asked, said in (
        (_asked(_broken), ("prices.lpu.float32", "classes.batch.discount")),
        (_asked(text='{"format": \n "x",, }'), ("line 2, column 6",)),
        (_asked(text="[" * 100_000), ("This JSON cannot be read",)),
        (_asked(text="9" * 10_000), ("This JSON cannot be read",)),
        (_asked(text="null"), ("Not a price book",)),
        (_asked(text=" "), ("Choose a file",)),
        (_asked(days=3), ("A new price book needs 30 days' notice",)),
        (_asked(lambda book: book.update(version=3)), ("The next price book must be version 2",)),
        (_asked(effective_from="tomorrow"), ("Enter a valid date/time",)),
        (_asked(text="<script>hostile</script>"), ("This is not JSON",)),
    ):
        for action in ("preview", "publish"):
            answer = admin.post(PLACE, {**asked, "action": action})
            assert answer.status_code == 422
            for words in said:
                assert words in unescape(answer.content.decode()), words
            assert "<script>hostile" not in answer.content.decode()
    assert PriceBook.objects.count() == 1


def test_a_file_that_is_no_text_is_refused(admin: Client) -> None:
    for content, said in ((b"\xff\xfe\x00", "not text in UTF-8"), (b" " * 1_000_001, "the maximum is 1,000,000")):
        answer = admin.post(PLACE, _asked(text="", file=SimpleUploadedFile("book.json", content)))
        assert answer.status_code == 422
        assert said in answer.content.decode()
