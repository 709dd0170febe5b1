from __future__ import annotations

import hashlib
import json
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.utils import DatabaseError

from apps.ledger.chain import chain_json, chain_verify, day_roots, roots_store
from apps.ledger.identity import identity
from apps.ledger.models import Chain, ChainRoot, Entry, Transaction, UsageRow
from apps.ledger.reconciling import reconcile
from apps.ledger.services import hold_release, usage_post_batch
from apps.ledger.usage import payload_of
from apps.pricing.rating import canonical_json, digest_of
from bin.services import APPLICATION_ROLE
from tests.cast import Cast
from tests.ledger.money import NOW, held, usage, used

pytestmark = pytest.mark.django_db


def behind_its_back(sql: str, *values: object) -> None:
    """What a superuser of the database could do: switch the guards off and rewrite a row."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(sql, values)
        cursor.execute("SET session_replication_role = origin")


CHANGES = {
    "contract_id": "gen_random_uuid()",
    "lease_id": "gen_random_uuid()",
    "idempotency_key": "'lease:other'",
    "payload_digest": "repeat('0', 64)",
    "quantity": "quantity + 1",
    "operations": "operations + 1",
    "cycles": "cycles + 1",
    "billed_operations": "billed_operations + 1",
    "program_digest": "repeat('0', 64)",
    "project_id": "gen_random_uuid()",
    "token_id": "gen_random_uuid()",
    "model_name": "'other'",
    "klass": "'other'",
    "rating": "jsonb_set(rating::jsonb, '{executions}', '7')::json",
    "unused": "NOT unused",
    "amount": "amount + 1e-40",
    "currency": "'USD'",
    "occurred_from": "occurred_from - interval '1 microsecond'",
    "occurred_to": "occurred_to + interval '1 microsecond'",
    "created_at": "created_at + interval '1 microsecond'",
    "id": "gen_random_uuid()",
}


@pytest.mark.parametrize("column", sorted(CHANGES))
def test_whatever_is_changed_in_a_usage_row_the_row_is_named(cast: Cast, column: str) -> None:
    hold = held(cast.organisation)
    usage_post_batch([usage(hold, key=f"lease:{number}") for number in range(3)], now=NOW)
    row = UsageRow.objects.get(idempotency_key="lease:1")
    change = CHANGES[column]
    behind_its_back(
        f"UPDATE ledger_usagerow SET {column} = {change} WHERE idempotency_key = 'lease:1'"  # noqa: S608 - from the table
    )
    found = chain_verify(cast.organisation.id)
    changed = UsageRow.objects.get(transaction=row.transaction_id, idempotency_key__in=["lease:1", "lease:other"])
    assert (found.broken_at, found.row) == (2, f"ledger_usagerow {changed.pk}")
    assert str(changed.pk) in found.reason


@pytest.mark.parametrize("rating", ["{}", "[]", '"x"', "null", '{"steps": []}'])
def test_a_rating_that_is_none_is_named_though_its_digest_was_rewritten_too(cast: Cast, rating: str) -> None:
    hold = held(cast.organisation)
    usage_post_batch([usage(hold, key=f"lease:{number}") for number in range(3)], now=NOW)
    behind_its_back("UPDATE ledger_usagerow SET rating = %s WHERE idempotency_key = 'lease:1'", rating)
    row = UsageRow.objects.get(idempotency_key="lease:1")
    digest = digest_of(payload_of(row.__dict__))
    behind_its_back("UPDATE ledger_usagerow SET payload_digest = %s WHERE id = %s", digest, row.pk)
    found = chain_verify(cast.organisation.id)
    assert (found.broken_at, found.row) == (2, f"ledger_usagerow {row.pk}")
    assert found.reason.endswith("its rating is none that was ever made")
    assert f"usage row {row.pk} (lease:1)" in str(reconcile(cast.organisation.id).differences)


def test_every_column_of_a_usage_row_is_bound() -> None:
    columns = {field.attname for field in UsageRow._meta.fields}
    assert columns - set(CHANGES) == {"organisation_id", "transaction_id"}  # the next test


@pytest.mark.parametrize("change", ["organisation_id = '{other}'", "transaction_id = '{first}'"])
def test_a_usage_row_that_is_moved_elsewhere_is_found(cast: Cast, change: str) -> None:
    hold = held(cast.organisation)
    usage_post_batch([usage(hold, key=f"lease:{number}") for number in range(3)], now=NOW)
    first = Transaction.objects.get(sequence=1)
    told = change.format(other=cast.stranger_organisation.id, first=first.id)
    behind_its_back(f"UPDATE ledger_usagerow SET {told} WHERE idempotency_key = 'lease:1'")  # noqa: S608
    found = chain_verify(cast.organisation.id)
    assert found.broken_at == 2
    assert found.row.startswith(("ledger_usagerow", "ledger_transaction"))


@pytest.mark.parametrize("change", ["amount = amount * 2", "balance = balance + 1", "number = 99"])
def test_a_changed_entry_is_named(cast: Cast, change: str) -> None:
    hold = held(cast.organisation)
    for _ in range(3):
        used(hold)
    entry = Entry.objects.filter(transaction__sequence=2).order_by("id")[1]
    behind_its_back(f"UPDATE ledger_entry SET {change} WHERE id = %s", entry.pk)  # noqa: S608
    found = chain_verify(cast.organisation.id)
    assert (found.broken_at, found.row) == (2, f"ledger_entry {entry.pk}")


@pytest.mark.parametrize("alone", [True, False])
def test_a_row_that_is_rewritten_together_with_its_digest_is_named(cast: Cast, alone: bool) -> None:
    hold = held(cast.organisation)
    keys = ["lease:1"] if alone else ["lease:0", "lease:1", "lease:2"]
    usage_post_batch([usage(hold, key=key) for key in keys], now=NOW)
    other = usage(hold, key="lease:1", model_name="other")
    behind_its_back(
        "UPDATE ledger_usagerow SET model_name = 'other', payload_digest = %s WHERE idempotency_key = 'lease:1'",
        other.digest,
    )
    found = chain_verify(cast.organisation.id)
    row = UsageRow.objects.get(idempotency_key="lease:1")
    assert (found.broken_at, found.row) == (2, f"ledger_usagerow {row.pk}")
    assert "(lease:1) was rewritten together with its digest" in found.reason


@pytest.mark.parametrize("alone", [True, False])
def test_a_row_that_got_another_key_and_its_id_is_named(cast: Cast, alone: bool) -> None:
    hold = held(cast.organisation)
    keys = ["lease:1"] if alone else ["lease:0", "lease:1", "lease:2"]
    usage_post_batch([usage(hold, key=key) for key in keys], now=NOW)
    other = identity(cast.organisation.id, "usage", "lease:9")  # stands last in the order of keys, not second
    behind_its_back(
        "UPDATE ledger_usagerow SET id = %s, idempotency_key = 'lease:9' WHERE idempotency_key = 'lease:1'", other
    )
    found = chain_verify(cast.organisation.id)
    assert (found.broken_at, found.row) == (2, f"ledger_usagerow {other}")


def test_rows_whose_contents_changed_places_and_a_row_that_is_gone_are_named(cast: Cast) -> None:
    hold = held(cast.organisation)
    usage_post_batch([usage(hold, key=f"lease:{number}", cycles=number) for number in range(3)], now=NOW)
    mark = transaction.savepoint()
    for key, cycles in (("lease:0", 1), ("lease:1", 0)):
        behind_its_back(
            f"UPDATE ledger_usagerow SET cycles = {cycles}, payload_digest = %s WHERE idempotency_key = '{key}'",  # noqa: S608
            usage(hold, key=key, cycles=cycles).digest,
        )
    assert "(lease:0) was rewritten" in chain_verify(cast.organisation.id).reason
    transaction.savepoint_rollback(mark)
    behind_its_back("DELETE FROM ledger_usagerow WHERE idempotency_key = 'lease:1'")
    assert "row 2 of 3 in the order of keys" in chain_verify(cast.organisation.id).reason


def test_roots_of_days_that_are_over_are_written_down_once_and_kept(cast: Cast) -> None:
    hold = held(cast.organisation, now=NOW - timedelta(days=2))
    used(hold, now=NOW - timedelta(days=1))
    yesterday = Chain.objects.get(organisation=cast.organisation).hash
    used(hold)
    assert (roots_store(now=NOW), roots_store(now=NOW)) == (2, 0)
    shown = day_roots(cast.organisation.id, now=NOW)
    assert [root.is_stored for root in shown] == [False, True, True]
    assert shown[1].hash == yesterday
    behind_its_back("UPDATE ledger_chainroot SET hash = repeat('0', 64) WHERE hash = %s", yesterday)
    assert "the root of 2026-11-19 names" in chain_verify(cast.organisation.id).reason


def test_the_document_of_a_chain_lets_anybody_compute_every_hash(cast: Cast) -> None:
    hold = held(cast.organisation, now=NOW - timedelta(days=1))
    usage_post_batch([usage(hold, key=f"lease:{number}") for number in range(3)], now=NOW)
    roots_store(now=NOW)
    document = json.loads("".join(chain_json(cast.organisation.id, now=NOW)))
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
        documents.append("".join(chain_json(cast.organisation.id, now=NOW)))
        transaction.savepoint_rollback(mark)
    assert documents[0] == documents[1]


ATTEMPTS = [
    "SET session_replication_role = replica",
    "ALTER TABLE ledger_entry DISABLE TRIGGER ALL",
    "DROP TRIGGER entry_append_only ON ledger_entry",
    "DROP TABLE ledger_outboxrow",
    "CREATE OR REPLACE FUNCTION takt_append_only() RETURNS trigger LANGUAGE sql AS 'SELECT NULL'",
    "CREATE TABLE public.mine (id integer)",
    "ALTER ROLE takt_app SUPERUSER",
    "UPDATE ledger_entry SET amount = amount * 2",
    "UPDATE ledger_usagerow SET amount = amount * 2",
    "UPDATE ledger_transaction SET hash = ''",
    "DELETE FROM ledger_usagerow",
    "DELETE FROM ledger_entry",
    "DELETE FROM ledger_transaction",
    "TRUNCATE ledger_transaction CASCADE",
    "TRUNCATE ledger_outboxrow",
]


def test_the_applications_own_role_works_with_rows_and_cannot_change_history(cast: Cast) -> None:
    """The role by which web, workers and scheduler run (bin/roles.sql), in a database made as every other."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL ROLE {APPLICATION_ROLE}")
        hold = held(cast.organisation)
        usage_post_batch([usage(hold, key=f"lease:{number}") for number in range(3)], now=NOW)
        used(hold)
        hold_release(contract_id=hold.contract_id, now=NOW)
        roots_store(now=NOW + timedelta(days=1))
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for attempt in ATTEMPTS:
            with pytest.raises(DatabaseError), transaction.atomic():
                cursor.execute(attempt)
        assert reconcile(cast.organisation.id).differences == []
        cursor.execute("SELECT count(*) FROM pg_tables WHERE tableowner = current_user")
        assert cursor.fetchone() == (0,)
        cursor.execute("RESET ROLE")
