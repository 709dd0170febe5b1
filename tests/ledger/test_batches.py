from __future__ import annotations

from collections import Counter
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.accounts.models import ApiToken, Organisation
from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.accounts.services import token_create
from apps.ledger.models import Hold, HoldState, OutboxRow, Spend, Transaction, UsageRow
from apps.ledger.reconciling import reconcile
from apps.ledger.selectors import balance_of, balances, cap_of, caps_of, spending
from apps.ledger.services import (
    CapReached,
    cap_set,
    hold_place,
    hold_release,
    holds_expire_due,
    transaction_reverse,
    usage_post_batch,
)
from apps.ledger.usage import digest_and_leaves, leaf_of, leaves_of, payload_of, rows_digest
from apps.pricing.rating import digest_of, exact_sum
from apps.registry.models import Project
from tests.cast import Cast
from tests.ledger.crew import at_once
from tests.ledger.money import NOW, balance, held, rating, usage, used
from tests.sales.market import open_market

pytestmark = pytest.mark.django_db


def test_many_rows_are_one_transaction_that_carries_their_digest(cast: Cast) -> None:
    holds = [held(cast.organisation, executions=50) for _ in range(3)]
    rows = [usage(holds[number % 3], 1 + number, key=f"lease:{number}") for number in range(9)]
    posted = usage_post_batch(rows, now=NOW)
    assert (posted.created, posted.repeated) == (9, 0)
    assert posted.transaction is not None
    assert posted.transaction.detail == {
        "rows": rows_digest((one.idempotency_key, one.digest) for one in rows),
        "count": 9,
        "leaves": digest_and_leaves((one.idempotency_key, one.digest) for one in rows)[1],
    }
    leaves = [leaf_of(one.idempotency_key, one.digest) for one in rows]  # in the order of their keys
    assert leaves_of(posted.transaction.detail["leaves"]) == leaves
    assert posted.transaction.usages.count() == 9
    assert balance_of(cast.organisation.id, "accrued", "EUR") == rating(45).amount
    assert OutboxRow.objects.filter(topic="ledger.usage").get().payload["rows"] == 9
    assert reconcile(cast.organisation.id).differences == []


def test_what_came_before_or_stands_twice_in_a_batch_is_passed_over(cast: Cast) -> None:
    hold = held(cast.organisation)
    used(hold, key="lease:1")
    again = [usage(hold, key=key) for key in ("lease:1", "lease:2", "lease:2", "lease:3")]
    first = usage_post_batch(again, now=NOW)
    second = usage_post_batch(again, now=NOW + timedelta(days=40))
    assert (first.created, first.repeated) == (2, 2)
    assert (second.created, second.repeated, second.transaction) == (0, 4, None)
    assert UsageRow.objects.count() == 3
    assert usage_post_batch([], now=NOW).created == 0


@pytest.mark.parametrize("is_recorded", [True, False])
def test_the_same_key_with_another_content_refuses_the_whole_batch_and_names_it(cast: Cast, is_recorded: bool) -> None:
    hold = held(cast.organisation)
    first = usage(hold, 1, key="lease:1")
    if is_recorded:
        usage_post_batch([first], now=NOW)
    batch = [usage(hold, key="lease:2"), *([] if is_recorded else [first]), usage(hold, 2, key="lease:1")]
    with pytest.raises(Problem, match=r"lease:1.*different content") as refusal:
        usage_post_batch(batch, now=NOW)
    assert refusal.value.errors == [{"idempotency_key": "lease:1"}]
    assert UsageRow.objects.count() == int(is_recorded)


def test_a_batch_above_one_of_its_holds_records_nothing(cast: Cast) -> None:
    small, large = held(cast.organisation, executions=2), held(cast.organisation, executions=20)
    with pytest.raises(Problem, match="left on hold"):
        usage_post_batch([usage(large, 5), usage(small), usage(small, 2)], now=NOW)
    assert UsageRow.objects.count() == 0
    assert balance(balances(cast.organisation.id), "held") == rating(22).amount


def test_a_batch_is_of_one_organisation(cast: Cast) -> None:
    rows = [usage(held(organisation)) for organisation in (cast.organisation, cast.stranger_organisation)]
    with pytest.raises(ValueError, match="one organisation"):
        usage_post_batch(rows, now=NOW)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40),
    operations=st.integers(0, 10**39),
    token=st.none() | st.uuids(),
    lease=st.none() | st.uuids(),
)
def test_a_row_comes_back_as_it_went_in_and_has_its_digest(
    cast: Cast, name: str, operations: int, token: Any, lease: Any
) -> None:
    one = usage(held(cast.organisation), model_name=name, operations=operations, token_id=token, lease_id=lease)
    assert usage_post_batch([one], now=NOW).created == 1
    row = UsageRow.objects.get(idempotency_key=one.idempotency_key)
    assert (row.model_name, row.operations, row.token_id, row.lease_id) == (name, operations, token, lease)
    assert row.rating == one.rating.to_json()
    assert digest_of(payload_of(row.__dict__)) == one.digest == row.payload_digest


# Caps of projects and keys


@pytest.fixture
def project(cast: Cast) -> Project:
    return Project.objects.create(organisation=cast.organisation, name="Cameras", created_at=NOW)


@pytest.fixture
def token(cast: Cast) -> ApiToken:
    made, _ = token_create(user=cast.owner, organisation=cast.organisation, name="ci", scopes=[Scope.READ], now=NOW)
    return made


def _hold(organisation: Organisation, executions: int, **whose: Any) -> Hold:
    contract_id = uuid4()
    return hold_place(
        organisation_id=organisation.id,
        contract_id=contract_id,
        amount=rating(executions).amount,
        currency="EUR",
        idempotency_key=f"contract:{contract_id}",
        now=NOW,
        **whose,
    )


def test_the_cap_of_a_project_holds_beside_the_organisations(cast: Cast, project: Project) -> None:
    cap_set(organisation=cast.organisation, amount=rating(100).amount, currency="EUR", now=NOW)
    cap_set(organisation=cast.organisation, amount=rating(10).amount, currency="EUR", now=NOW, project_id=project.id)
    hold = _hold(cast.organisation, 6, project_id=project.id)
    with pytest.raises(CapReached, match="for project Cameras") as refusal:
        _hold(cast.organisation, 5, project_id=project.id)
    assert refusal.value.errors[0]["scope"] == "project"
    usage_post_batch([usage(hold, 6, project_id=project.id)], now=NOW)
    _hold(cast.organisation, 4, project_id=project.id)
    _hold(cast.organisation, 50)
    spent = spending(organisation_id=cast.organisation.id, currency="EUR", now=NOW, project_id=project.id)
    assert (spent.used, spent.held) == (rating(6).amount, rating(4).amount)
    assert [cap.scope for cap in caps_of(cast.organisation.id)] == ["organisation", "project"]
    cap_set(organisation=cast.organisation, amount=None, currency="EUR", now=NOW, project_id=project.id)
    assert cap_of(cast.organisation.id, currency="EUR") is not None
    assert reconcile(cast.organisation.id).differences == []


def test_a_hold_over_two_projects_counts_to_each_its_share(cast: Cast, project: Project) -> None:
    other = Project.objects.create(organisation=cast.organisation, name="Doors", created_at=NOW)
    cap_set(organisation=cast.organisation, amount=rating(3).amount, currency="EUR", now=NOW, project_id=other.id)
    shares = {project.id: rating(7).amount, other.id: rating(3).amount}
    hold = _hold(cast.organisation, 10, shares=shares)
    with pytest.raises(Problem, match="for this project"):
        usage_post_batch([usage(hold, 4, project_id=other.id)], now=NOW)
    usage_post_batch([usage(hold, 3, project_id=other.id), usage(hold, 7, project_id=project.id)], now=NOW)
    hold.refresh_from_db()
    assert hold.state == HoldState.POSTED
    with pytest.raises(ValueError, match="must sum"):
        _hold(cast.organisation, 9, shares=shares)


def test_the_cap_of_a_key_counts_what_it_accepted(cast: Cast, token: ApiToken) -> None:
    cap_set(organisation=cast.organisation, amount=rating(10).amount, currency="EUR", now=NOW, token_id=token.id)
    hold = _hold(cast.organisation, 8, token_id=token.id)
    used(hold, 8)
    _hold(cast.organisation, 30)
    with pytest.raises(CapReached, match="for API token ci"):
        _hold(cast.organisation, 3, token_id=token.id)
    assert Spend.objects.get().token_id == token.id


def test_a_hold_that_timed_out_gives_back_what_it_has_left(cast: Cast) -> None:
    hold = _hold(cast.organisation, 10, expires_at=NOW + timedelta(days=1))
    used(hold, 4)
    assert holds_expire_due(now=NOW) == 0
    assert holds_expire_due(now=NOW + timedelta(days=1)) == 1
    assert holds_expire_due(now=NOW + timedelta(days=1)) == 0
    hold.refresh_from_db()
    assert hold.state == HoldState.EXPIRED
    assert balance(balances(cast.organisation.id), "held") == 0
    assert hold_release(contract_id=hold.contract_id, now=NOW).state == HoldState.EXPIRED
    with pytest.raises(Problem, match="left on hold"):
        used(hold, 1)


def test_a_posting_is_reversed_once_and_usage_never(cast: Cast) -> None:
    from apps.ledger.models import AccountKind
    from apps.ledger.posting import transaction_post

    used(held(cast.organisation))
    posted, _ = transaction_post(
        organisation_id=cast.organisation.id,
        kind="payment",
        idempotency_key="p",
        subject="p",
        currency="EUR",
        amounts={AccountKind.BANK: Decimal(5), AccountKind.RECEIVABLE: Decimal(-5)},
        detail={},
        now=NOW,
    )
    given_back = {"organisation_id": cast.organisation.id, "transaction_id": posted.id, "reason": "wrong", "now": NOW}
    assert [transaction_reverse(**given_back)[1] for _ in range(2)] == [True, False]
    assert balance_of(cast.organisation.id, AccountKind.BANK, "EUR") == 0
    for kind in ("usage", "hold.place", "payment.reverse"):
        other = Transaction.objects.filter(kind=kind).first()
        assert other is not None
        with pytest.raises(Problem, match="cannot be reversed"):
            transaction_reverse(**{**given_back, "transaction_id": other.id})


# Many processes


def _poster(number: int, contracts: list[tuple[Any, Any]]) -> int:
    """Posts what every other process posts too, in another order, some in batches and some alone."""
    rows = [
        usage(Hold(organisation_id=organisation, contract_id=contract), key=f"{contract}:{key}")
        for organisation, contract in contracts
        for key in range(12)
    ]
    own: dict[Any, list[Any]] = {}
    for row in rows[number * 7 :] + rows[: number * 7]:
        own.setdefault(row.organisation_id, []).append(row)
    created = 0
    for batch in own.values():
        created += usage_post_batch(batch[::2], now=NOW).created
        created += sum(usage_post_batch([row], now=NOW).created for row in batch[1::2])
    return created


@pytest.mark.django_db(transaction=True)
def test_processes_that_post_the_same_usage_record_it_once(cast: Cast) -> None:
    contracts = []
    for organisation in (cast.organisation, cast.stranger_organisation):
        cap_set(organisation=organisation, amount=rating(24).amount, currency="EUR", now=NOW)
        holds = [held(organisation, executions=12) for _ in range(2)]
        contracts += [(organisation.id, hold.contract_id) for hold in holds]
    answers = at_once(_poster, [(number, contracts) for number in range(4)])
    assert sum(answers) == UsageRow.objects.count() == 48
    assert set(Counter(UsageRow.objects.values_list("contract_id", flat=True)).values()) == {12}
    for organisation in (cast.organisation, cast.stranger_organisation):
        assert reconcile(organisation.id).differences == []
        assert set(Hold.objects.filter(organisation=organisation).values_list("state", flat=True)) == {"posted"}
        with pytest.raises(CapReached):
            held(organisation, executions=1)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.sampled_from("PUURE"), st.integers(0, 3), st.integers(1, 6)), max_size=16))
def test_in_any_order_what_is_held_is_posted_or_released(cast: Cast, steps: list[tuple[str, int, int]]) -> None:
    holds: list[Hold] = []
    for step, which, executions in steps:
        if step == "P" or not holds:
            holds.append(_hold(cast.organisation, executions, expires_at=NOW))
            continue
        hold = holds[which % len(holds)]
        if step == "R":
            hold_release(contract_id=hold.contract_id, now=NOW)
        elif step == "E":
            holds_expire_due(now=NOW)
        else:
            left = {one.pk: one for one in Hold.objects.filter(pk=hold.pk)}[hold.pk]
            room = (
                left.state == HoldState.PENDING and exact_sum([left.posted, rating(executions).amount]) <= left.amount
            )
            if room:
                used(hold, executions)
            else:
                with pytest.raises(Problem, match="left on hold"):
                    used(hold, executions)
    books = balances(cast.organisation.id)
    open_now = Hold.objects.filter(organisation=cast.organisation, state=HoldState.PENDING)
    assert balance(books, "held") == exact_sum(hold.amount - hold.posted for hold in open_now)
    assert exact_sum(books.values()) == 0
    assert reconcile(cast.organisation.id).differences == []


def test_caps_are_set_and_shown_over_the_api(cast: Cast, project: Project, token: ApiToken, as_token: Any) -> None:
    open_market()
    client = as_token(cast.owner, cast.organisation, Scope.READ, Scope.BILLING)
    for address in (f"/api/v1/spend-caps/projects/{project.pk}", f"/api/v1/spend-caps/tokens/{token.pk}"):
        answer = client.put(address, data={"amount": "12.50"}, content_type="application/json")
        assert answer.status_code == 200, answer.content
    shown = client.get("/api/v1/spend-caps").json()
    assert [(one["scope"], one["cap"], one["used"]) for one in shown] == [
        ("project", "12.5", "0"),
        ("token", "12.5", "0"),
    ]
    client.put(f"/api/v1/spend-caps/projects/{project.pk}", data={"amount": None}, content_type="application/json")
    assert [one["scope"] for one in client.get("/api/v1/spend-caps").json()] == ["token"]
