"""Create, edit, publish and discard drafts of price books."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.pricing.models import DraftState, PriceBook, PriceBookDraft
from apps.pricing.services import book_checked, pricebook_preview, pricebook_publish


def book_last() -> PriceBook:
    """Return the book with the highest version. Raises Problem if no book is published."""
    last = PriceBook.objects.order_by("-version").first()
    if last is None:
        raise Problem(
            409, "No price book", "No price book has been published yet; import one first.", kind="no-price-book"
        )
    return last


@transaction.atomic
def draft_create(*, actor: User | None, now: datetime, document: Any = None) -> PriceBookDraft:
    """Start a draft from the last published book or from an imported document.

    If the actor already has an unsaved open draft with the same content, return the existing draft. Raises Problem with
    every fault if the document is not a price book.
    """
    content = None if document is None else book_checked(document).to_json()
    last = PriceBook.objects.select_for_update(no_key=True).get(pk=book_last().pk)
    content = {**(content or last.document), "version": last.version + 1}
    same = PriceBookDraft.objects.filter(state=DraftState.OPEN, revision=1, created_by=actor, document=content).first()
    if same is not None:
        return same
    return PriceBookDraft.objects.create(
        base=last.version,
        document=content,
        created_at=now,
        created_by=actor,
        saved_at=now,
        saved_by=actor,
    )


def draft_faults(document: dict[str, Any]) -> list[str]:
    """Return the faults that prevent publication, each with its path."""
    try:
        book_checked(document)
    except Problem as refusal:
        return [str(one["message"]) for one in refusal.errors or []]
    return []


@transaction.atomic
def draft_save(
    *, pk: UUID, document: dict[str, Any], revision: int, actor: User | None, now: datetime
) -> PriceBookDraft:
    """Store new content of an open draft.

    Raises Problem if the draft is not open, or if the draft was saved since `revision`.
    """
    draft = _open(pk)
    if draft.document == document:
        return draft
    _revision_check(draft, revision)
    draft.document, draft.revision, draft.saved_at, draft.saved_by = document, draft.revision + 1, now, actor
    draft.save(update_fields=["document", "revision", "saved_at", "saved_by"])
    return draft


@transaction.atomic
def draft_discard(*, pk: UUID, actor: User | None, now: datetime) -> PriceBookDraft:
    """Discard an open draft. Raises Problem if the draft is not open."""
    draft = _open(pk)
    draft.state, draft.saved_at, draft.saved_by = DraftState.DISCARDED, now, actor
    draft.save(update_fields=["state", "saved_at", "saved_by"])
    return draft


@transaction.atomic
def draft_publish(
    *, pk: UUID, revision: int, effective_from: datetime, actor: User | None, now: datetime
) -> PriceBookDraft:
    """Publish an open draft as the next price book. A published draft is returned unchanged.

    Raises Problem if the draft was saved since `revision`, or if the draft can't be published.
    """
    draft = PriceBookDraft.objects.select_for_update(of=("self",)).select_related("book").get(pk=pk)
    if draft.state == DraftState.PUBLISHED:
        return draft
    _open_check(draft)
    _revision_check(draft, revision)
    book = pricebook_publish(document=document_next(draft), effective_from=effective_from, now=now, actor=actor)
    draft.state, draft.book, draft.saved_at, draft.saved_by = DraftState.PUBLISHED, book, now, actor
    draft.save(update_fields=["state", "book", "saved_at", "saved_by"])
    if actor is not None:
        audit_record(
            action="price-book.draft-publish",
            subject=f"price book {book.version}",
            actor=actor,
            now=now,
            detail={"draft": str(draft.pk), "revision": draft.revision},
        )
    return draft


def draft_preview(draft: PriceBookDraft, *, effective_from: datetime, now: datetime) -> PriceBook:
    """Return the book that the draft would become, without storing it. Raises Problem if the draft can't be published."""
    return pricebook_preview(document=document_next(draft), effective_from=effective_from, now=now)


def document_next(draft: PriceBookDraft) -> dict[str, Any]:
    """Return the draft's document, with a version one above that of the last published book."""
    return {**draft.document, "version": book_last().version + 1}


def _open(pk: UUID) -> PriceBookDraft:
    draft = PriceBookDraft.objects.select_for_update(of=("self",)).get(pk=pk)
    _open_check(draft)
    return draft


def _open_check(draft: PriceBookDraft) -> None:
    if not draft.is_open:
        detail = f"This draft is {draft.get_state_display().lower()} and can't be changed. Start a new draft."
        raise Problem(409, "Draft is closed", detail, kind="price-draft-closed")


def _revision_check(draft: PriceBookDraft, revision: int) -> None:
    if draft.revision != revision:
        detail = (
            f"This draft was saved elsewhere at {draft.saved_at:%H:%M:%S} UTC, after you opened this page. Nothing on "
            "this page was saved. Reload the page to see the other changes, then make yours."
        )
        raise Problem(409, "Draft has changed", detail, kind="price-draft-changed")
