"""The chain's file, of rows that somebody altered behind the product's back: the customer's own check names them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.cli.main import RIGHT, WRONG, main
from apps.config.settings import queues
from apps.ledger.chain import chain_json, chain_verify, day_roots
from apps.ledger.models import Chain, ChainRoot, Entry, Transaction, UsageRow
from apps.ledger.services import hold_release, usage_post_batch
from tests.cast import Cast
from tests.ledger.money import NOW, held, usage, used
from tests.ledger.test_chain import CHANGES, behind_its_back

pytestmark = pytest.mark.django_db


def _document(cast: Cast, now: datetime = NOW) -> dict[str, Any]:
    document: dict[str, Any] = json.loads("".join(chain_json(cast.organisation.id, now=now)))
    return document


def _run(folder: Path, document: dict[str, Any]) -> int:
    path = folder / "chain.json"
    path.write_text(json.dumps(document))
    return main(["verify", "--chain", str(path)])


def _batch(cast: Cast) -> UsageRow:
    """Three leases posted at once; the second is given."""
    hold = held(cast.organisation)
    usage_post_batch([usage(hold, key=f"lease:{number}") for number in range(3)], now=NOW)
    return UsageRow.objects.get(idempotency_key="lease:1")


@pytest.mark.parametrize("column", sorted(CHANGES))
def test_whatever_is_changed_in_a_usage_row_the_file_names_it(
    cast: Cast, tmp_path: Path, column: str, capsys: pytest.CaptureFixture[str]
) -> None:
    row = _batch(cast)
    assert _run(tmp_path, _document(cast)) == RIGHT
    behind_its_back(
        f"UPDATE ledger_usagerow SET {column} = {CHANGES[column]} WHERE idempotency_key = 'lease:1'"  # noqa: S608
    )
    changed = UsageRow.objects.get(transaction=row.transaction_id, idempotency_key__in=["lease:1", "lease:other"])
    assert _run(tmp_path, _document(cast)) == WRONG
    assert (
        f"ledger_usagerow {changed.pk}: usage row {changed.pk} ({changed.idempotency_key})" in capsys.readouterr().out
    )


IN_THE_DIGEST = (
    "contract_id",
    "lease_id",
    "idempotency_key",
    "quantity",
    "operations",
    "cycles",
    "program_digest",
    "project_id",
    "token_id",
    "model_name",
    "rating",
    "occurred_from",
    "occurred_to",
)


@pytest.mark.parametrize("column", IN_THE_DIGEST)
def test_the_digests_of_the_file_are_of_the_columns_and_not_of_what_is_stored_beside_them(
    cast: Cast, tmp_path: Path, column: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The customer's machine finds it by itself, whatever the site says of its own rows."""
    _batch(cast)
    behind_its_back(
        f"UPDATE ledger_usagerow SET {column} = {CHANGES[column]} WHERE idempotency_key = 'lease:1'"  # noqa: S608
    )
    document = _document(cast)
    del document["transactions"][1]["altered"]
    assert _run(tmp_path, document) == WRONG
    assert "usage row lease:" in capsys.readouterr().out


def test_what_no_row_was_ever_posted_with_is_named_as_well(
    cast: Cast, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = _batch(cast)
    behind_its_back(
        "UPDATE ledger_usagerow SET rating = jsonb_set(rating::jsonb, '{executions}', '7.5')::json WHERE id = %s",
        row.pk,
    )
    assert chain_verify(cast.organisation.id).row == f"ledger_usagerow {row.pk}"
    behind_its_back("""UPDATE ledger_transaction SET detail = jsonb_set(detail, '{count}', '2.5') WHERE sequence = 2""")
    assert _run(tmp_path, _document(cast)) == WRONG
    assert f"ledger_usagerow {row.pk}" in capsys.readouterr().out


@pytest.mark.parametrize("change", ["amount = amount * 2", "balance = balance + 1", "number = 99"])
def test_the_file_names_a_changed_entry(
    cast: Cast, tmp_path: Path, change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hold = held(cast.organisation)
    used(hold)
    entry = Entry.objects.filter(transaction__sequence=2).order_by("id")[1]
    behind_its_back(f"UPDATE ledger_entry SET {change} WHERE id = %s", entry.pk)  # noqa: S608
    assert _run(tmp_path, _document(cast)) == WRONG
    assert f"ledger_entry {entry.pk}: " in capsys.readouterr().out


def _last_deleted() -> None:
    last = Transaction.objects.order_by("sequence").last()
    assert last is not None
    behind_its_back("DELETE FROM ledger_entry WHERE transaction_id = %s", last.pk)
    behind_its_back("DELETE FROM ledger_transaction WHERE id = %s", last.pk)


def test_an_end_that_was_cut_off_is_found_by_the_head_and_by_the_roots(
    cast: Cast, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hold = held(cast.organisation)
    used(hold)
    hold_release(contract_id=hold.contract_id, now=NOW)
    whole = _document(cast)
    assert _run(tmp_path, whole) == RIGHT
    assert whole["today"] == {"day": "2026-11-20", **whole["head"]}
    whole["transactions"].pop()  # the file alone, with its head: today's root so far
    last = whole["transactions"][-1]
    assert _run(tmp_path, whole | {"head": {"sequence": 2, "hash": last["hash"]}}) == WRONG
    assert "root of 2026-11-20 so far, hash of transaction 3" in capsys.readouterr().out
    _last_deleted()
    assert _run(tmp_path, _document(cast)) == WRONG
    assert "transaction 3, which the chain's head names" in capsys.readouterr().out


def test_an_end_that_was_cut_off_with_its_head_is_found_by_the_stored_root(
    cast: Cast, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    used(held(cast.organisation))
    tomorrow = NOW + timedelta(days=1)
    assert len(_document(cast, tomorrow)["roots"]) == 1
    _last_deleted()
    behind_its_back("UPDATE ledger_chain SET (sequence, hash) = (SELECT sequence, hash FROM ledger_transaction)")
    assert _run(tmp_path, _document(cast, tomorrow)) == WRONG
    assert "root of 2026-11-20, hash of transaction 2" in capsys.readouterr().out


@pytest.mark.parametrize("change", ["UPDATE ledger_chain SET sequence = 1, hash = %s", "DELETE FROM ledger_chain"])
def test_a_transaction_behind_the_head_is_named(
    cast: Cast, tmp_path: Path, change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    used(held(cast.organisation))
    first = Transaction.objects.get(sequence=1)
    behind_its_back(change, *([first.hash] if "%s" in change else []))
    assert _run(tmp_path, _document(cast)) == WRONG
    assert "stands behind the chain's head" in capsys.readouterr().out


def test_what_is_posted_while_the_file_is_written_is_left_out(cast: Cast, tmp_path: Path) -> None:
    hold = held(cast.organisation)
    used(hold)
    pieces = chain_json(cast.organisation.id, now=NOW)
    begun = next(pieces)
    used(hold)
    document = json.loads(begun + "".join(pieces))
    assert (len(document["transactions"]), Chain.objects.get().sequence) == (2, 3)
    assert _run(tmp_path, document) == RIGHT
    assert _run(tmp_path, {**document, "transactions": []}) == WRONG


def test_an_organisation_without_a_ledger_has_an_empty_chain(cast: Cast, tmp_path: Path) -> None:
    document = _document(cast)
    assert document["head"] == {"sequence": 0, "hash": "0" * 64}
    assert (document["transactions"], document["roots"], document["today"]) == ([], [], None)
    assert _run(tmp_path, document) == RIGHT


MIDNIGHT = datetime(2026, 11, 21, tzinfo=UTC)


def test_the_root_of_a_day_is_in_the_first_file_after_midnight(cast: Cast) -> None:
    used(held(cast.organisation))
    assert _document(cast, MIDNIGHT - timedelta(microseconds=1))["roots"] == []
    head = Chain.objects.get()
    document = _document(cast, MIDNIGHT)
    assert document["roots"] == [{"day": "2026-11-20", "sequence": 2, "hash": head.hash}]
    assert (document["today"], ChainRoot.objects.get().stored_at) == (None, MIDNIGHT)


def test_the_root_of_a_day_is_stored_when_it_is_first_shown(cast: Cast) -> None:
    used(held(cast.organisation))
    other = held(cast.stranger_organisation)
    assert [one.is_stored for one in day_roots(cast.organisation.id, now=NOW)] == [False]
    assert [one.is_stored for one in day_roots(cast.organisation.id, now=MIDNIGHT)] == [True]
    assert not ChainRoot.objects.filter(organisation_id=other.organisation_id).exists()


def test_pages_and_the_api_say_which_roots_are_stored(cast: Cast, as_user: Callable[[User], Client]) -> None:
    now = timezone.now()
    hold = held(cast.organisation, now=now - timedelta(days=1))
    used(hold, now=now)
    client = as_user(cast.owner)
    assert [one["stored"] for one in client.get("/api/v1/ledger").json()["roots"]] == [False, True]
    chain = json.loads(b"".join(client.get("/api/v1/ledger/chain").streaming_content))  # type: ignore[attr-defined]
    assert [one["sequence"] for one in chain["roots"]] == [1]
    assert chain["today"]["sequence"] == 2


def test_roots_are_stored_minutes_after_midnight_and_every_hour() -> None:
    moments = queues.CELERY_BEAT_SCHEDULE["ledger-store-roots"]["schedule"]
    assert (moments.hour, len(moments.minute)) == (set(range(24)), 1)
    assert max(moments.minute) < 10
    assert queues.CELERY_TIMEZONE == "UTC"
