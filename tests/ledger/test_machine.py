"""Whatever happens to holds, in whatever order: nothing is charged twice or above them, what was held is posted or given
back, and the same history again has the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from uuid import UUID, uuid5

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.accounts.models import Organisation
from apps.accounts.problems import Problem
from apps.ledger.chain import chain_json
from apps.ledger.models import Hold, HoldState
from apps.ledger.reconciling import reconcile
from apps.ledger.selectors import balances
from apps.ledger.services import CapReached, cap_set, hold_place, hold_release, holds_expire_due, usage_post_batch
from apps.pricing.rating import exact_sum
from tests.cast import Cast
from tests.ledger.money import NOW, balance, rating, usage

CONTRACTS = 3
MOST = 12  # executions under the cap
LAST_DAY = 10  # still November: a cap is of a calendar month
ENDS = (timedelta(days=2), timedelta(days=9), None)

CONTRACT = st.integers(0, CONTRACTS - 1)
ACTIONS = st.one_of(
    st.tuples(st.just("place"), CONTRACT, st.integers(1, 8)),
    st.tuples(
        st.just("post"), CONTRACT, st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), min_size=1, max_size=3)
    ),
    st.tuples(st.just("void"), CONTRACT, st.none()),
    st.tuples(st.just("expire"), st.none(), st.integers(1, 5)),
)


@dataclass
class Held:
    """What a hold must be: all in executions, whose price is linear."""

    size: int
    posted: int = 0
    state: str = HoldState.PENDING
    keys: dict[str, int] = field(default_factory=dict)


@dataclass
class Model:
    """The rules without a database, beside the ledger that they are about."""

    organisation: Organisation
    now_days: int = 0
    holds: dict[int, Held] = field(default_factory=dict)

    def contract(self, number: int) -> UUID:
        return uuid5(self.organisation.id, f"contract {number}")

    @property
    def committed(self) -> int:
        """What counts against the cap: used, and still set aside."""
        return sum(one.size if one.state == HoldState.PENDING else one.posted for one in self.holds.values())

    def place(self, number: int, size: int) -> None:
        known = self.holds.get(number)
        fits = self.committed + size <= MOST
        allowed = known.size == size if known else fits

        def act() -> None:
            end = ENDS[number]
            hold_place(
                organisation_id=self.organisation.id,
                contract_id=self.contract(number),
                amount=rating(size).amount,
                currency="EUR",
                idempotency_key=f"contract:{number}",
                now=self.now,
                expires_at=end and NOW + end,
            )

        if _passes(act, allowed=allowed) and known is None:
            self.holds[number] = Held(size)

    def post(self, number: int, rows: list[tuple[int, int]]) -> None:
        known = self.holds.get(number)
        hold = Hold(organisation_id=self.organisation.id, contract_id=self.contract(number))
        many = [usage(hold, executions, key=f"{number}:{key}") for key, executions in rows]
        wanted: dict[str, int] = {}
        same = all(wanted.setdefault(f"{number}:{key}", count) == count for key, count in rows)
        same = same and known is not None and all(known.keys.get(key, count) == count for key, count in wanted.items())
        fresh = {key: count for key, count in wanted.items() if known and key not in known.keys}
        left = known.size - known.posted if known and known.state == HoldState.PENDING else 0
        allowed = same and sum(fresh.values()) <= left
        if _passes(lambda: usage_post_batch(many, now=self.now), allowed=allowed) and known:
            known.keys |= fresh
            known.posted += sum(fresh.values())
            if known.posted == known.size and known.state == HoldState.PENDING:
                known.state = HoldState.POSTED

    def void(self, number: int, _: None) -> None:
        known = self.holds.get(number)
        if known is None:
            return
        hold_release(contract_id=self.contract(number), now=self.now)
        if known.state == HoldState.PENDING:
            known.state = HoldState.RELEASED

    def expire(self, _: None, days: int) -> None:
        self.now_days = min(self.now_days + days, LAST_DAY)
        due = [
            one
            for number, one in self.holds.items()
            if (end := ENDS[number]) is not None and NOW + end <= self.now and one.state == HoldState.PENDING
        ]
        assert holds_expire_due(now=self.now) == len(due)
        for one in due:
            one.state = HoldState.EXPIRED

    @property
    def now(self) -> datetime:
        return NOW + timedelta(days=self.now_days)

    def check(self) -> None:
        """The ledger is what the model says, and its books are whole."""
        books = balances(self.organisation.id)
        open_holds = [one for one in self.holds.values() if one.state == HoldState.PENDING]
        for number, held in self.holds.items():
            found = Hold.objects.get(contract_id=self.contract(number))
            assert (found.state, found.posted) == (held.state, _price(held.posted))
        assert balance(books, "held") == _price(sum(one.size - one.posted for one in open_holds))
        assert balance(books, "accrued") == _price(sum(one.posted for one in self.holds.values()))
        assert exact_sum(books.values()) == 0
        assert reconcile(self.organisation.id).differences == []


def _price(executions: int) -> Decimal:
    return rating(executions).amount if executions else Decimal(0)


def _passes(act: Callable[[], object], *, allowed: bool) -> bool:
    """Whether the ledger took it, which must be whether the rules allow it."""
    try:
        with transaction.atomic():
            act()
    except (Problem, CapReached):
        assert not allowed
        return False
    assert allowed
    return True


def _history(organisation: Organisation, actions: list[tuple[str, int, object]]) -> str:
    """Let it happen, check the books, and give the chain as a document."""
    cap_set(organisation=organisation, amount=rating(MOST).amount, currency="EUR", now=NOW)
    model = Model(organisation)
    for name, first, second in actions:
        getattr(model, name)(first, second)
    model.check()
    return "".join(chain_json(organisation.id, now=NOW + timedelta(days=model.now_days + 1)))


@pytest.mark.django_db
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=st.lists(ACTIONS, min_size=3, max_size=14))
def test_holds_are_a_state_machine_and_history_replays(cast: Cast, actions: list[tuple[str, int, object]]) -> None:
    documents = []
    for _ in range(2):
        mark = transaction.savepoint()
        documents.append(_history(cast.organisation, actions))
        transaction.savepoint_rollback(mark)
    assert documents[0] == documents[1]
