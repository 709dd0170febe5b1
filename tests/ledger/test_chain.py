from __future__ import annotations

import hashlib
import json
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.utils import DatabaseError

from apps.ledger.chain import chain_json, chain_verify, day_roots, roots_store
from apps.ledger.models import Chain, ChainRoot, Entry, Transaction, UsageRow
from apps.ledger.services import usage_post_batch
from apps.pricing.rating import canonical_json
from tests.cast import Cast
from tests.ledger.money import NOW, held, usage, used

pytestmark = pytest.mark.django_db


def _behind_its_back(sql: str, *values: object) -> None:
    """What a superuser of the database could do: switch the guards off and rewrite a row."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(sql, values)
        cursor.execute("SET session_replication_role = origin")


CHANGES = {
    "contract_id": "gen_random_uuid()", "lease_id": "gen_random_uuid()", "idempotency_key": "'lease:other'",
    "payload_digest": "repeat('0', 64)", "quantity": "quantity + 1", "operations": "operations + 1",
    "cycles": "cycles + 1", "billed_operations": "billed_operations + 1", "program_digest": "repeat('0', 64)",
    "project_id": "gen_random_uuid()", "token_id": "gen_random_uuid()", "model_name": "'other'", "klass": "'other'",
    "rating": "jsonb_set(rating, '{executions}', '7')", "amount": "amount + 1e-40", "currency": "'USD'",
    "occurred_from": "occurred_from - interval '1 microsecond'", "occurred_to": "occurred_to + interval '1 microsecond'",
    "created_at": "created_at + interval '1 microsecond'", "id": "gen_random_uuid()",
}  # fmt: skip


@pytest.mark.parametrize("column", sorted(CHANGES))
def test_whatever_is_changed_in_a_usage_row_the_row_is_named(cast: Cast, column: str) -> None:
    hold = held(cast.organisation)
    usage_post_batch([usage(hold, key=f"lease:{number}") for number in range(3)], now=NOW)
    row = UsageRow.objects.get(idempotency_key="lease:1")
    change = CHANGES[column]
    _behind_its_back(
        f"UPDATE ledger_usagerow SET {column} = {change} WHERE idempotency_key = 'lease:1'"  # noqa: S608 - from the table
    )
    found = chain_verify(cast.organisation.id)
    changed = UsageRow.objects.get(transaction=row.transaction_id, idempotency_key__in=["lease:1", "lease:other"])
    assert (found.broken_at, found.row) == (2, f"ledger_usagerow {changed.pk}")
    assert str(changed.pk) in found.reason


def test_every_column_of_a_usage_row_is_bound() -> None:
    columns = {field.attname for field in UsageRow._meta.fields}
    assert columns - set(CHANGES) == {"organisation_id", "transaction_id"}  # the next test


@pytest.mark.parametrize("change", ["organisation_id = '{other}'", "transaction_id = '{first}'"])
def test_a_usage_row_that_is_moved_elsewhere_is_found(cast: Cast, change: str) -> None:
    hold = held(cast.organisation)
    usage_post_batch([usage(hold, key=f"lease:{number}") for number in range(3)], now=NOW)
    first = Transaction.objects.get(sequence=1)
    told = change.format(other=cast.stranger_organisation.id, first=first.id)
    _behind_its_back(f"UPDATE ledger_usagerow SET {told} WHERE idempotency_key = 'lease:1'")  # noqa: S608
    found = chain_verify(cast.organisation.id)
    assert found.broken_at == 2
    assert found.row.startswith(("ledger_usagerow", "ledger_transaction"))


@pytest.mark.parametrize("change", ["amount = amount * 2", "balance = balance + 1", "number = 99"])
def test_a_changed_entry_is_named(cast: Cast, change: str) -> None:
    hold = held(cast.organisation)
    for _ in range(3):
        used(hold)
    entry = Entry.objects.filter(transaction__sequence=2).order_by("id")[1]
    _behind_its_back(f"UPDATE ledger_entry SET {change} WHERE id = %s", entry.pk)  # noqa: S608
    found = chain_verify(cast.organisation.id)
    assert (found.broken_at, found.row) == (2, f"ledger_entry {entry.pk}")


def test_a_rewritten_row_with_its_digest_made_anew_does_not_fit_what_was_committed_to(cast: Cast) -> None:
    hold = held(cast.organisation)
    usage_post_batch([usage(hold, key=f"lease:{number}") for number in range(3)], now=NOW)
    other = usage(hold, key="lease:1", model_name="other")
    _behind_its_back(
        "UPDATE ledger_usagerow SET model_name = 'other', payload_digest = %s WHERE idempotency_key = 'lease:1'",
        other.digest,
    )
    assert "does not commit to its usage rows" in chain_verify(cast.organisation.id).reason


def test_roots_of_days_that_are_over_are_written_down_once_and_kept(cast: Cast) -> None:
    hold = held(cast.organisation, now=NOW - timedelta(days=2))
    used(hold, now=NOW - timedelta(days=1))
    yesterday = Chain.objects.get(organisation=cast.organisation).hash
    used(hold)
    assert (roots_store(now=NOW), roots_store(now=NOW)) == (2, 0)
    shown = day_roots(cast.organisation.id, now=NOW)
    assert [root.is_stored for root in shown] == [False, True, True]
    assert shown[1].hash == yesterday
    _behind_its_back("UPDATE ledger_chainroot SET hash = repeat('0', 64) WHERE hash = %s", yesterday)
    assert "the root of 2026-11-19 names" in chain_verify(cast.organisation.id).reason


def test_the_document_of_a_chain_lets_anybody_compute_every_hash(cast: Cast) -> None:
    hold = held(cast.organisation, now=NOW - timedelta(days=1))
    usage_post_batch([usage(hold, key=f"lease:{number}") for number in range(3)], now=NOW)
    roots_store(now=NOW)
    document = json.loads("".join(chain_json(cast.organisation.id)))
    previous = "0" * 64
    for told in document["transactions"]:
        names = ("sequence", "at", "kind", "key", "subject", "detail", "entries")
        content = {"previous": previous, "organisation": document["organisation"], **{key: told[key] for key in names}}
        previous = hashlib.sha256(canonical_json(content).encode()).hexdigest()
        assert told["hash"] == previous
    assert previous == Chain.objects.get(organisation=cast.organisation).hash
    lines = "".join(f"{key} {digest}\n" for key, digest in document["transactions"][1]["usages"])
    assert document["transactions"][1]["detail"]["rows"] == hashlib.sha256(lines.encode()).hexdigest()
    assert document["roots"] == [
        {"day": "2026-11-19", "sequence": 1, "hash": ChainRoot.objects.get().hash},
    ]


def test_a_replayed_history_has_identical_bytes(cast: Cast) -> None:
    documents = []
    for _ in range(2):
        mark = transaction.savepoint()
        hold = held(cast.organisation, contract_id=cast.owner.id)
        usage_post_batch([usage(hold, key=f"lease:{number}") for number in range(3)], now=NOW)
        used(hold, 2, key="lease:last")
        documents.append("".join(chain_json(cast.organisation.id)))
        transaction.savepoint_rollback(mark)
    assert documents[0] == documents[1]


def test_a_role_that_only_works_with_rows_cannot_switch_the_guards_off(cast: Cast) -> None:
    """As an operator sets the application's role up: it owns no table, and has every right to rows."""
    used(held(cast.organisation))
    attempts = [
        "SET session_replication_role = replica",
        "ALTER TABLE ledger_entry DISABLE TRIGGER ALL",
        "DROP TRIGGER entry_append_only ON ledger_entry",
        "UPDATE ledger_entry SET amount = amount * 2",
        "DELETE FROM ledger_usagerow",
        "TRUNCATE ledger_transaction CASCADE",
    ]
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("CREATE ROLE takt_rows_only")
        cursor.execute(
            "GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON ALL TABLES IN SCHEMA public TO takt_rows_only"
        )
        for attempt in attempts:
            with pytest.raises(DatabaseError), transaction.atomic():  # noqa: PT012 - the role ends with the savepoint
                cursor.execute("SET LOCAL ROLE takt_rows_only")
                cursor.execute(attempt)
    assert chain_verify(cast.organisation.id).intact
