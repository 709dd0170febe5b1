"""Processes that place, post, void, expire and set caps at once, of the same few contracts: nothing is lost or doubled."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from datetime import timedelta
from threading import Thread
from typing import Any
from uuid import UUID, uuid5

import pytest
from django.db import connection

from apps.accounts.models import Organisation
from apps.accounts.problems import Problem
from apps.ledger import chain
from apps.ledger.models import Hold, HoldState, UsageRow
from apps.ledger.reconciling import reconcile
from apps.ledger.selectors import spending
from apps.ledger.services import cap_set, hold_place, hold_release, holds_expire_due, usage_post, usage_post_batch
from apps.pricing.rating import exact_sum
from tests.cast import Cast
from tests.ledger.crew import at_once
from tests.ledger.money import NOW, held, rating, usage, used

PROCESSES = 5
ACTIONS = 30  # of each process
CONTRACTS = 12
CAP = 30  # executions


def _contract(organisation: UUID, number: int) -> UUID:
    return uuid5(organisation, f"contract {number}")


def _place(organisation: UUID, drawn: random.Random) -> None:
    number = drawn.randrange(CONTRACTS)
    contract = _contract(organisation, number)
    hold_place(
        organisation_id=organisation,
        contract_id=contract,
        amount=rating(2 + number % 5).amount,
        currency="EUR",
        idempotency_key=f"contract:{contract}",
        now=NOW,
        expires_at=NOW + timedelta(hours=number),
    )


def _rows(organisation: UUID, drawn: random.Random) -> list[Any]:
    rows = []
    for _ in range(drawn.randrange(1, 4)):
        number, row = drawn.randrange(CONTRACTS), drawn.randrange(4)
        hold = Hold(organisation_id=organisation, contract_id=_contract(organisation, number))
        rows.append(usage(hold, 1 + row % 2, key=f"lease:{number}:{row}"))
    return rows


def _batch(organisation: UUID, drawn: random.Random) -> None:
    usage_post_batch(_rows(organisation, drawn), now=NOW)


def _one(organisation: UUID, drawn: random.Random) -> None:
    usage_post(_rows(organisation, drawn)[0], now=NOW)


def _void(organisation: UUID, drawn: random.Random) -> None:
    contract = _contract(organisation, drawn.randrange(CONTRACTS))
    if Hold.objects.filter(contract_id=contract).exists():
        hold_release(contract_id=contract, now=NOW)


def _expire(organisation: UUID, drawn: random.Random) -> None:
    holds_expire_due(now=NOW + timedelta(hours=drawn.randrange(3)))


def _cap(organisation: UUID, drawn: random.Random) -> None:
    cap_set(organisation=Organisation.objects.get(pk=organisation), amount=rating(CAP).amount, currency="EUR", now=NOW)


KINDS: list[Callable[[UUID, random.Random], None]] = [_place] * 3 + [_batch] * 4 + [_one] * 3 + [_void, _expire, _cap]


def _act(number: int, organisation: UUID) -> int:
    """What is refused by a rule is an answer; anything else is an error. Returns how much was refused."""
    drawn, refused = random.Random(number), 0
    for _ in range(ACTIONS):
        try:
            drawn.choice(KINDS)(organisation, drawn)
        except Problem:
            refused += 1
    return refused


@pytest.mark.django_db(transaction=True)
def test_whatever_processes_do_at_once_the_books_agree_and_the_cap_holds(cast: Cast) -> None:
    organisation = cast.organisation.id
    _cap(organisation, random.Random(0))
    refused = at_once(_act, [(number, organisation) for number in range(PROCESSES)])
    assert len(refused) == PROCESSES
    assert spending(organisation_id=organisation, currency="EUR", now=NOW).committed <= rating(CAP).amount
    holds = Hold.objects.filter(organisation=organisation)
    assert UsageRow.objects.count() > 5
    assert holds.exclude(state=HoldState.PENDING).exists()
    for hold in holds:
        used = UsageRow.objects.filter(contract_id=hold.contract_id).values_list("amount", flat=True)
        assert hold.posted == exact_sum(used) <= hold.amount
        assert (hold.state == HoldState.POSTED) == (hold.posted == hold.amount)
    assert reconcile(organisation).differences == []


@pytest.mark.django_db(transaction=True)
def test_what_is_posted_while_the_chain_is_checked_is_no_break(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    hold = held(cast.organisation)
    used(hold)
    read = chain._transactions

    def meanwhile() -> None:
        used(hold)
        connection.close()

    def posted_first(*given: Any, **only: Any) -> Any:
        """The head was read; before the transactions are, somebody posts."""
        thread = Thread(target=meanwhile)
        thread.start()
        thread.join()
        return read(*given, **only)

    monkeypatch.setattr(chain, "_transactions", posted_first)
    report = chain.chain_verify(cast.organisation.id)
    assert (report.intact, report.transactions) == (True, 2), report.reason
    assert UsageRow.objects.count() == 2
    monkeypatch.undo()
    assert chain.chain_verify(cast.organisation.id).transactions == 3


def _die(number: int) -> int:
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.django_db(transaction=True)
def test_a_process_that_is_killed_is_told_by_its_exit_code() -> None:
    with pytest.raises(AssertionError, match="process 1 ended with -9"):
        at_once(_die, [(0,), (1,), (2,)])
