from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
from django.db import IntegrityError, connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.accounts.problems import Problem
from apps.ledger.models import Account, Chain, Hold, HoldState, OutboxRow, Transaction, UsageRow
from apps.ledger.posting import transaction_post
from apps.ledger.reconciling import reconcile
from apps.ledger.selectors import balances, chain_verify, day_roots, spending
from apps.ledger.services import CapReached, cap_set, hold_release, usages
from apps.pricing.rating import exact_sum
from bin.services import APPLICATION_ROLE
from tests.cast import Cast
from tests.ledger.money import COUNTS, NOW, balance, held, rating, used
from tests.tiers import some

pytestmark = [pytest.mark.django_db, pytest.mark.alone]  # constraints are set to be checked at once


def _refused(sql: str, *values: object) -> str:
    return _all_refused((sql, values))


def _all_refused(*statements: tuple[str, Sequence[object]]) -> str:
    """What the database says against the last of these, or against all of them together."""
    with pytest.raises(IntegrityError) as refusal:
        _execute_all(statements)
    return str(refusal.value)


def _execute(sql: str, values: Sequence[object] = ()) -> None:
    _execute_all([(sql, values)])


@transaction.atomic
def _execute_all(statements: Sequence[tuple[str, Sequence[object]]]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
        for sql, values in statements:
            cursor.execute(sql, values)
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


def test_a_hold_sets_aside_and_gives_back(cast: Cast) -> None:
    hold = held(cast.organisation)
    assert balance(balances(cast.organisation.id), "held") == rating(10).amount
    hold_release(contract_id=hold.contract_id, now=NOW)
    assert hold_release(contract_id=hold.contract_id, now=NOW).state == HoldState.RELEASED
    assert set(balances(cast.organisation.id).values()) == {Decimal(0)}
    assert Transaction.objects.count() == 2


def test_usage_moves_its_price_from_the_hold_to_what_is_accrued(cast: Cast) -> None:
    hold = held(cast.organisation)
    row, created = used(hold, 4)
    now = balances(cast.organisation.id)
    assert created
    assert balance(now, "accrued") == row.amount == rating(4).amount
    assert balance(now, "revenue") == row.amount.copy_negate()
    assert balance(now, "held") == rating(6).amount
    assert exact_sum(now.values()) == 0


def test_a_contract_used_up_posts_its_hold_to_the_last_digit(cast: Cast) -> None:
    hold = held(cast.organisation, executions=10)
    for executions in (1, 2, 3, 4):
        used(hold, executions)
    hold.refresh_from_db()
    assert (hold.state, hold.posted) == (HoldState.POSTED, hold.amount)
    assert exact_sum(UsageRow.objects.values_list("amount", flat=True)) == rating(10).amount
    assert balance(balances(cast.organisation.id), "held") == 0


def test_the_same_key_with_the_same_payload_is_recorded_once(cast: Cast) -> None:
    hold = held(cast.organisation)
    first, _ = used(hold, 2, key="lease:1")
    again, created = used(hold, 2, key="lease:1")
    assert (again.pk, created) == (first.pk, False)
    assert Transaction.objects.filter(kind="usage").count() == 1


@pytest.mark.parametrize(
    "changes", [{"model_name": "other"}, {"cycles": COUNTS.cycles * 2 + 1}, {"occurred_to": NOW + timedelta(seconds=2)}]
)
def test_the_same_key_with_another_payload_is_a_conflict(cast: Cast, changes: dict[str, object]) -> None:
    hold = held(cast.organisation)
    used(hold, 2, key="lease:1")
    with pytest.raises(Problem) as refusal:
        used(hold, 2, key="lease:1", **changes)
    assert (refusal.value.status, refusal.value.kind) == (409, "usage-conflict")
    assert UsageRow.objects.count() == 1


def test_the_same_key_serves_two_organisations(cast: Cast) -> None:
    for organisation in (cast.organisation, cast.stranger_organisation):
        used(held(organisation), 1, key="lease:1")
    assert UsageRow.objects.count() == 2


def test_nothing_above_the_hold_is_ever_charged(cast: Cast) -> None:
    hold = held(cast.organisation, executions=3)
    used(hold, 2)
    with pytest.raises(Problem, match="left on hold"):
        used(hold, 2)
    assert balance(balances(cast.organisation.id), "accrued") == rating(2).amount


def test_nothing_is_charged_to_a_contract_without_a_hold_or_with_a_closed_one(cast: Cast) -> None:
    hold = held(cast.organisation)
    with pytest.raises(Problem, match="has no hold"):
        used(hold, 1, contract_id=uuid4())
    hold_release(contract_id=hold.contract_id, now=NOW)
    with pytest.raises(Problem, match="left on hold"):
        used(hold, 1)


def test_a_cap_is_kept_by_holds(cast: Cast) -> None:
    cap_set(organisation=cast.organisation, amount=rating(10).amount, currency="EUR", now=NOW)
    first = held(cast.organisation, executions=6)
    with pytest.raises(CapReached, match="is left"):
        held(cast.organisation, executions=5)
    used(first, 6)
    held(cast.organisation, executions=4)
    with pytest.raises(CapReached):
        held(cast.organisation, executions=1)
    assert spending(organisation_id=cast.organisation.id, currency="EUR", now=NOW).committed == rating(10).amount


def test_a_new_month_begins_with_what_is_still_held(cast: Cast) -> None:
    cap_set(organisation=cast.organisation, amount=rating(10).amount, currency="EUR", now=NOW)
    used(held(cast.organisation, executions=6), 6)
    held(cast.organisation, executions=4)
    later = NOW + timedelta(days=20)
    held(cast.organisation, executions=6, now=later)
    with pytest.raises(CapReached):
        held(cast.organisation, executions=1, now=later)


@pytest.mark.parametrize("jump", [timedelta(days=-400), timedelta(hours=-1), timedelta(hours=1), timedelta(days=400)])
def test_a_clock_that_jumps_takes_nothing_out_of_a_caps_sight(cast: Cast, jump: timedelta) -> None:
    cap_set(organisation=cast.organisation, amount=rating(10).amount, currency="EUR", now=NOW)
    hold = held(cast.organisation, executions=10)
    used(hold, 4, now=NOW + jump)
    assert spending(organisation_id=cast.organisation.id, currency="EUR", now=NOW).used == rating(4).amount
    used(hold, 6)
    with pytest.raises(CapReached):
        held(cast.organisation, executions=1)
    assert reconcile(cast.organisation.id).differences == []


def test_a_hold_asked_for_twice_is_placed_once(cast: Cast) -> None:
    contract = uuid4()
    assert held(cast.organisation, contract_id=contract) == held(cast.organisation, contract_id=contract)
    with pytest.raises(Problem, match="was already used for another hold"):
        held(cast.organisation, contract_id=contract, executions=11)


def test_the_database_refuses_to_change_history(cast: Cast) -> None:
    hold = held(cast.organisation)
    used(hold)
    for table in ("ledger_transaction", "ledger_entry", "ledger_usagerow"):
        assert "only ever added" in _refused(f"UPDATE {table} SET id = id")  # noqa: S608 - the names stand above
        assert "only ever added" in _refused(f"DELETE FROM {table}")  # noqa: S608
    _execute("SELECT 1")  # nothing may be pending
    for table in ("transaction", "entry", "usagerow", "hold", "holdshare", "spend", "chainroot", "account", "chain"):
        assert "only ever added" in _refused(f"TRUNCATE ledger_{table} CASCADE")
    assert "never deleted" in _refused("DELETE FROM ledger_hold")
    assert "only grows" in _refused("DELETE FROM ledger_spend")
    assert "only grows" in _refused("UPDATE ledger_spend SET amount = 0")
    assert "only posts" in _refused("UPDATE ledger_hold SET amount = amount + 1")
    assert "only posts" in _refused("UPDATE ledger_hold SET posted = 0")


def _next(cast: Cast) -> tuple[str, list[object]]:
    """The statement that begins a transaction at the end of the chain, without entries."""
    head = Chain.objects.get(organisation=cast.organisation)
    sql = (
        "INSERT INTO ledger_transaction (id, organisation_id, sequence, kind, idempotency_key, subject, detail, at, "
        "previous_hash, hash) VALUES (%s, %s, %s, 'x', 'x', 'x', '{}', now(), %s, repeat('1', 64))"
    )
    return sql, [uuid4(), cast.organisation.id, head.sequence + 1, head.hash]


ENTRY = "INSERT INTO ledger_entry (transaction_id, account_id, amount) VALUES (%s, %s, 1e-40)"


def test_the_database_refuses_a_transaction_that_does_not_balance(cast: Cast) -> None:
    used(held(cast.organisation))
    account = Account.objects.filter(organisation=cast.organisation).first()
    assert account is not None
    begun, values = _next(cast)
    assert "has 0 entries" in _refused(begun, *values)
    said = _all_refused((begun, values), (ENTRY, [values[0], account.id]))
    assert "sum to 0.0000000000000000000000000000000000000001" in said


def test_history_grows_at_its_end_alone(cast: Cast) -> None:
    used(held(cast.organisation))
    used(held(cast.stranger_organisation))
    posted = Transaction.objects.filter(organisation=cast.organisation).last()
    theirs = Account.objects.filter(organisation=cast.stranger_organisation).first()
    own = Account.objects.filter(organisation=cast.organisation).first()
    assert posted is not None
    assert theirs is not None
    assert own is not None
    assert "entry is of a new transaction" in _refused(ENTRY, posted.id, own.id)  # an old one, even if it balanced
    begun, values = _next(cast)
    for place, wrong in ((2, 99), (3, "0" * 64), (1, cast.stranger_organisation.id)):
        changed = [wrong if number == place else value for number, value in enumerate(values)]
        assert "does not follow from the head" in _refused(begun, *changed)
    assert "of its own organisation" in _all_refused((begun, values), (ENTRY, [values[0], theirs.id]))
    for change in ("sequence = sequence - 1", "sequence = sequence + 1", "hash = repeat('1', 64)"):
        assert "one by one" in _refused(f"UPDATE ledger_chain SET {change}")  # noqa: S608
    assert "never deleted" in _refused("DELETE FROM ledger_chain")
    assert "begins with nothing" in _refused("INSERT INTO ledger_chain VALUES (gen_random_uuid(), 1, repeat('1', 64))")


def test_usage_rows_are_those_that_their_transaction_posts(cast: Cast) -> None:
    hold = held(cast.organisation)
    first, _ = used(hold, 2)
    last, _ = used(hold, 2)
    columns = [field.column for field in UsageRow._meta.fields if field.column not in ("id", "idempotency_key")]
    copied = (
        f"INSERT INTO ledger_usagerow (id, idempotency_key, {', '.join(columns)}) "  # noqa: S608 - the model's columns
        f"SELECT gen_random_uuid(), 'again', {', '.join(columns)} FROM ledger_usagerow WHERE id = %s"
    )
    for row in (first, last):  # what it would add to is over, or has all its rows
        assert "which posts just them" in _refused(copied, row.pk)


@transaction.atomic
def _posted(hold: Hold) -> None:
    used(hold)
    _execute("SELECT 1")


@pytest.mark.parametrize("rows", ["one", "none"])
def test_what_a_row_posts_is_what_its_entries_say(cast: Cast, rows: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect in the application: entries of another amount, or of more rows than there are."""
    hold = held(cast.organisation)
    true = usages._usage_entries
    if rows == "one":
        monkeypatch.setattr(usages, "_usage_entries", lambda fresh: true([*fresh, *fresh]))
    else:
        monkeypatch.setattr(usages, "rows_write", lambda *_: None)
    with pytest.raises(IntegrityError, match=r"which posts just them|has no usage row"):
        _posted(hold)


def test_a_message_of_the_outbox_is_neither_rewritten_nor_forgotten(cast: Cast) -> None:
    used(held(cast.organisation))
    for change in ("payload = '{}'", "topic = 'x'", "created_at = now()"):
        assert "only ever added" in _refused(f"UPDATE ledger_outboxrow SET {change}")  # noqa: S608
    assert "only ever added" in _refused("DELETE FROM ledger_outboxrow")
    _execute("UPDATE ledger_outboxrow SET delivered_at = now()")
    assert "only ever added" in _refused("UPDATE ledger_outboxrow SET delivered_at = NULL")


def test_a_table_of_the_same_name_does_not_blind_the_guards(cast: Cast) -> None:
    """Temporary tables come first where a function names a table without its schema."""
    used(held(cast.organisation))
    begun, values = _next(cast)
    said = _all_refused(
        (f"SET LOCAL ROLE {APPLICATION_ROLE}", ()),
        ("CREATE TEMPORARY TABLE ledger_entry (transaction_id uuid, amount numeric)", ()),
        ("INSERT INTO ledger_entry VALUES (%s, 1), (%s, -1)", [values[0]] * 2),
        (begun, values),
    )
    assert "has 0 entries" in said


def test_a_posting_that_does_not_balance_is_refused_before_the_database(cast: Cast) -> None:
    with pytest.raises(ValueError, match="does not balance"):
        transaction_post(
            organisation_id=cast.organisation.id,
            kind="x",
            idempotency_key="x",
            subject="x",
            currency="EUR",
            amounts={},
            detail={},
            now=NOW,
        )


def _tamper(sql: str, *values: object) -> None:
    """What somebody with the keys of the database could do: switch the guards off and rewrite a row."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(sql, values)
        cursor.execute("SET session_replication_role = origin")


SECOND = "SELECT id FROM ledger_transaction WHERE sequence = 2"


@pytest.mark.parametrize(
    ("sql", "broken_at"),
    [
        (f"UPDATE ledger_entry SET amount = amount * 2 WHERE transaction_id IN ({SECOND})", 2),  # noqa: S608
        ("UPDATE ledger_transaction SET at = at + interval '1 microsecond' WHERE sequence = 3", 3),
        ("UPDATE ledger_transaction SET subject = 'contract x' WHERE sequence = 1", 1),
        ("DELETE FROM ledger_chain", 5),
        ("UPDATE ledger_chain SET sequence = 7", 5),
    ],
)
def test_rewritten_history_is_found(cast: Cast, sql: str, broken_at: int) -> None:
    hold = held(cast.organisation)
    for _ in range(3):
        used(hold)
    assert chain_verify(cast.organisation.id).intact
    _tamper(sql)
    assert chain_verify(cast.organisation.id).broken_at == broken_at


def test_the_roots_of_days_are_the_last_hashes(cast: Cast) -> None:
    hold = held(cast.organisation, now=NOW - timedelta(days=1))
    first = Chain.objects.get(organisation=cast.organisation).hash
    used(hold)
    used(hold)
    last = Chain.objects.get(organisation=cast.organisation).hash
    assert [root.hash for root in day_roots(cast.organisation.id, now=NOW)] == [last, first]


def test_every_posting_leaves_word_for_others(cast: Cast) -> None:
    used(held(cast.organisation))
    assert list(OutboxRow.objects.order_by("id").values_list("topic", flat=True)) == [
        "ledger.hold.place",
        "ledger.usage",
    ]


def test_reconciliation_finds_no_difference_and_then_the_one_that_is_made(cast: Cast) -> None:
    hold = held(cast.organisation)
    used(hold, 2)
    clean = reconcile(cast.organisation.id)
    assert (clean.rows, clean.differences) == (1, [])
    assert clean.metered == clean.rated == clean.posted == {"EUR": rating(2).amount}
    _tamper("UPDATE ledger_usagerow SET amount = amount + 1e-40")
    found = reconcile(cast.organisation.id).differences  # by its steps, posting, month, sum, hold and digest
    assert len(found) == 6


@settings(max_examples=some(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(st.integers(1, 10**9), min_size=1, max_size=5), rest=st.integers(0, 10**9))
def test_whatever_is_used_the_books_balance(cast: Cast, parts: list[int], rest: int) -> None:
    hold = held(cast.organisation, executions=sum(parts) + rest)
    before = balances(cast.organisation.id)
    for executions in parts:
        used(hold, executions)
    hold_release(contract_id=hold.contract_id, now=NOW)
    after = balances(cast.organisation.id)
    assert exact_sum(after.values()) == 0
    assert balance(after, "held") == 0
    gained = exact_sum([balance(after, "accrued"), balance(before, "accrued").copy_negate()])
    assert gained == rating(sum(parts)).amount
    assert Hold.objects.get(pk=hold.pk).state == (HoldState.RELEASED if rest else HoldState.POSTED)
    assert reconcile(cast.organisation.id).differences == []
