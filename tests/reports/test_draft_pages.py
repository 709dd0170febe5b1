"""The administrator edits a draft in forms, sees what it changes and what it would have done, and publishes it once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from html import unescape

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import AuditEntry, User
from apps.pricing import drafts
from apps.pricing.draft_forms import ClassesForm, PricesForm
from apps.pricing.draft_hours import HoursForm
from apps.pricing.models import DraftState, PriceBook, PriceBookDraft
from apps.pricing.selectors import document_of
from apps.reports.models import Rerating
from apps.reports.rerating import rerating_run
from tests.cast import Cast
from tests.pricing.test_draft_forms import entered
from tests.sales.tenancy import a_contract_of
from tests.sales.test_contracts import run

pytestmark = pytest.mark.django_db
LIST = "/prices/drafts"


@pytest.fixture
def admin(cast: Cast, as_user: Callable[[User], Client]) -> Client:
    run(a_contract_of(cast), 1000, now=timezone.now())
    return as_user(cast.admin)


@pytest.fixture
def draft(cast: Cast, admin: Client) -> PriceBookDraft:
    return drafts.draft_create(actor=cast.admin, now=timezone.now())


def place(draft: PriceBookDraft, section: str = "prices") -> str:
    return f"{LIST}/{draft.pk}/{section}"


def prices(draft: PriceBookDraft, price: str = "0.009", **more: str) -> dict[str, str]:
    return entered(PricesForm(draft.document), **{"price-lpu-float32": price, "revision": str(draft.revision)}, **more)


def start_text(days: int = 60) -> str:
    return f"{timezone.now() + timedelta(days=days):%Y-%m-%dT%H:%M}"


def test_a_price_is_edited_reviewed_and_published(admin: Client) -> None:
    assert admin.post(LIST)["Location"].endswith("/prices")
    draft = PriceBookDraft.objects.get()
    assert admin.post(place(draft), prices(draft, action="review"))["Location"] == place(draft, "review")
    draft.refresh_from_db()
    assert (draft.document["prices"]["lpu"]["float32"], draft.revision) == ("0.009", 2)

    for asked in Rerating.objects.all():
        rerating_run(pk=asked.pk, now=timezone.now())
    page = unescape(admin.get(place(draft, "review")).content.decode())
    assert "Price of a tera-operation, lpu, float32" in page
    assert "At this book's prices" in page
    assert PriceBook.objects.count() == 1

    sent = {"revision": draft.revision, "effective_from": start_text(), "action": "publish"}
    assert admin.post(place(draft, "review"), sent)["Location"] == "/prices"
    published = PriceBook.objects.get(version=2)
    assert str(document_of(published).prices["lpu"]["float32"]) == "0.009"
    draft.refresh_from_db()
    assert (draft.state, draft.book) == (DraftState.PUBLISHED, published)
    assert AuditEntry.objects.filter(action="price-book.publish").count() == 1


def test_a_second_click_publishes_no_second_book(admin: Client, draft: PriceBookDraft) -> None:
    admin.post(place(draft), prices(draft))
    sent = {"revision": draft.revision + 1, "effective_from": start_text(), "action": "publish"}
    for _ in range(2):
        answer = admin.post(place(draft, "review"), sent, follow=True)
        assert "Price book 2 is published" in answer.content.decode()
    assert PriceBook.objects.count() == 2


def test_a_second_click_starts_no_second_draft(admin: Client) -> None:
    assert admin.post(LIST)["Location"] == admin.post(LIST)["Location"]
    assert PriceBookDraft.objects.count() == 1


def test_a_draft_survives_a_reload(admin: Client, draft: PriceBookDraft) -> None:
    admin.post(place(draft), prices(draft))
    for _ in range(2):
        assert 'value="0.009"' in admin.get(place(draft)).content.decode()


def test_a_stale_tab_saves_nothing_and_says_so(admin: Client, draft: PriceBookDraft) -> None:
    admin.post(place(draft), prices(draft))
    answer = admin.post(place(draft), prices(draft, price="0.001"))
    assert answer.status_code == 409
    assert "saved elsewhere" in answer.content.decode()
    draft.refresh_from_db()
    assert draft.document["prices"]["lpu"]["float32"] == "0.009"


def test_a_review_of_an_older_revision_publishes_nothing(admin: Client, draft: PriceBookDraft) -> None:
    admin.post(place(draft), prices(draft))
    sent = {"revision": draft.revision, "effective_from": start_text(), "action": "publish"}
    answer = admin.post(place(draft, "review"), sent)
    assert answer.status_code == 409
    assert PriceBook.objects.count() == 1


def test_the_same_entry_twice_is_saved_once(admin: Client, draft: PriceBookDraft) -> None:
    for _ in range(2):
        assert admin.post(place(draft), prices(draft)).status_code == 302
    draft.refresh_from_db()
    assert draft.revision == 2


def test_nonsense_keeps_what_was_typed_and_saves_nothing(admin: Client, draft: PriceBookDraft) -> None:
    answer = admin.post(place(draft), prices(draft, price="cheap"))
    page = unescape(answer.content.decode())
    assert answer.status_code == 422
    assert 'value="cheap"' in page
    assert "Enter a number such as 0.0000046" in page
    draft.refresh_from_db()
    assert draft.revision == 1


def test_an_empty_post_is_answered_in_sentences(admin: Client, draft: PriceBookDraft) -> None:
    for section in ("prices", "classes", "hours", "terms"):
        assert admin.post(place(draft, section), {}).status_code in {409, 422}
    assert admin.post(place(draft, "review"), {"action": "publish"}).status_code == 422


def test_a_faulty_draft_is_kept_and_cannot_be_published(admin: Client, draft: PriceBookDraft) -> None:
    sent = entered(ClassesForm(draft.document), **{"unused-standard": "0.95", "revision": "1", "action": "review"})
    assert admin.post(place(draft, "classes"), sent).status_code == 302
    assert "This is 0.95, more than" in unescape(admin.get(place(draft, "classes")).content.decode())
    assert "To correct before publishing" in admin.get(place(draft, "review")).content.decode()
    answer = admin.post(place(draft, "review"), {"revision": 2, "effective_from": start_text(), "action": "publish"})
    assert answer.status_code == 422
    assert PriceBook.objects.count() == 1
    assert not Rerating.objects.exists()


def test_too_short_a_notice_is_refused_on_the_page(admin: Client, draft: PriceBookDraft) -> None:
    admin.post(place(draft), prices(draft))
    for text, sentence in (
        (start_text(3), "30 days' notice"),
        ("😀", "Enter a date and a time"),
        ("9" * 500, "Enter a date"),
    ):
        answer = admin.post(place(draft, "review"), {"revision": 2, "effective_from": text, "action": "publish"})
        assert sentence in unescape(answer.content.decode())
    assert PriceBook.objects.count() == 1


def test_the_effect_is_started_once(admin: Client, draft: PriceBookDraft) -> None:
    admin.post(place(draft), prices(draft))
    for _ in range(2):
        admin.post(place(draft, "review"), {"action": "rate"})
    assert Rerating.objects.count() == 2  # last month and this one


def test_hours_are_filled_and_stay(admin: Client, draft: PriceBookDraft) -> None:
    sent = entered(
        HoursForm(draft.document),
        revision="1",
        action="fill",
        fill_days="both",
        fill_from="0",
        fill_until="24",
        fill_period="1",
    )
    assert admin.post(place(draft, "hours"), sent)["Location"].endswith("#grids")
    draft.refresh_from_db()
    assert {one for row in draft.document["tariff"]["weekday"] for one in row} == {1}


def test_a_discarded_draft_leads_away(admin: Client, draft: PriceBookDraft) -> None:
    for _ in range(2):
        assert admin.post(f"{LIST}/{draft.pk}/discard")["Location"] == LIST
    assert admin.get(place(draft))["Location"] == LIST
    assert admin.post(place(draft), prices(draft))["Location"] == LIST


def test_an_exported_draft_can_be_imported(admin: Client, draft: PriceBookDraft) -> None:
    admin.post(place(draft), prices(draft))
    text = admin.get(f"{LIST}/{draft.pk}/price-book.json").content.decode()
    answer = admin.post("/prices/new", {"text": text, "effective_from": start_text(), "action": "draft"})
    imported = PriceBookDraft.objects.exclude(pk=draft.pk).get()
    assert answer["Location"] == place(imported)
    assert imported.document["prices"]["lpu"]["float32"] == "0.009"


def test_customers_never_see_drafts(cast: Cast, draft: PriceBookDraft, as_user: Callable[[User], Client]) -> None:
    browser = as_user(cast.owner)
    for address in (LIST, place(draft), place(draft, "review"), f"{LIST}/{draft.pk}/price-book.json"):
        assert browser.get(address).status_code == 404
