"""Usage added up by quarters of an hour: always the sum of its rows, and a difference is named."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from apps.accounts.models import Organisation
from apps.ledger.models import UsageRow, UsageSum
from apps.ledger.reconciling import reconcile
from apps.ledger.services import usage_post_batch
from tests.cast import Cast
from tests.ledger.money import NOW, held, usage, used
from tests.tiers import some

KEY = ("currency", "contract_id", "program_digest", "project_id", "token_id", "model_name", "klass", "unused")
PARTS = st.tuples(
    st.integers(0, 1), st.integers(1, 4), st.integers(0, 7_200), st.sampled_from(["a", "b"]), st.integers(0, 3)
)


def quarter(at: datetime) -> datetime:
    """The instant rounded down to a quarter of an hour."""
    return at.replace(minute=at.minute - at.minute % 15, second=0, microsecond=0)


def summed(organisation: Organisation) -> dict[tuple[Any, ...], tuple[int, int, int, Decimal, int]]:
    """Every sum, from the rows."""
    found: dict[tuple[Any, ...], list[Any]] = defaultdict(lambda: [0, 0, 0, Decimal(0), 0])
    for row in UsageRow.objects.filter(organisation=organisation):
        sums = found[quarter(row.created_at), quarter(row.occurred_from), *(getattr(row, name) for name in KEY)]
        for place, more in enumerate((row.quantity, row.operations, row.billed_operations, row.amount, 1)):
            sums[place] += more
    return {key: tuple(sums) for key, sums in found.items()}  # type: ignore[misc]


def kept(organisation: Organisation) -> dict[tuple[Any, ...], tuple[int, int, int, Decimal, int]]:
    """Every sum, as it is kept."""
    return {
        (one.recorded_at, one.occurred_at, *(getattr(one, name) for name in KEY)): (
            int(one.quantity),
            int(one.operations),
            int(one.billed_operations),
            one.amount,
            one.rows,
        )
        for one in UsageSum.objects.filter(organisation=organisation)
    }


class Sums(TestCase):
    """Properties over batches of usage."""

    @settings(max_examples=some(25), deadline=None)
    @given(st.lists(st.lists(PARTS, min_size=1, max_size=6), max_size=5))
    def test_a_sum_is_that_of_its_rows(self, batches: list[list[tuple[int, int, int, str, int]]]) -> None:
        organisation = Organisation.objects.create(name="Sums", slug="sums")
        holds = [held(organisation, executions=200) for _ in range(2)]
        for number, batch in enumerate(batches):
            rows = [
                usage(
                    holds[which],
                    count,
                    key=f"{number}:{place}",
                    model_name=name,
                    occurred_from=NOW + timedelta(seconds=second),
                    occurred_to=NOW + timedelta(seconds=second),
                )
                for place, (which, count, second, name, _) in enumerate(batch)
            ]
            usage_post_batch(rows, now=NOW + timedelta(minutes=7 * batch[0][4]))
        assert kept(organisation) == summed(organisation)
        assert reconcile(organisation.id).differences == []


@pytest.mark.django_db
@pytest.mark.parametrize("column", ["quantity", "operations", "billed_operations", "amount", "rows"])
def test_a_sum_that_is_not_that_of_its_rows_is_named(cast: Cast, column: str) -> None:
    hold = held(cast.organisation)
    used(hold)
    with connection.cursor() as cursor:  # behind the guards of the database
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(f"UPDATE ledger_usagesum SET {column} = {column} + 1")  # noqa: S608 - the names stand above
        cursor.execute("SET session_replication_role = DEFAULT")
    (difference,) = reconcile(cast.organisation.id).differences
    assert difference == (
        f"the quarter of an hour from {NOW:%Y-%m-%d %H:%M} does not hold the sum of its usage of contract {hold.contract_id}"
    )


@pytest.mark.django_db
@pytest.mark.parametrize("sql", ["DELETE FROM ledger_usagesum", "UPDATE ledger_usagesum SET amount = 0"])
def test_the_database_refuses_a_sum_that_shrinks(cast: Cast, sql: str) -> None:
    used(held(cast.organisation))
    with pytest.raises(IntegrityError, match="only grow"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql)


@pytest.mark.django_db
def test_usage_of_the_release_before_is_added_up_when_the_table_comes(cast: Cast) -> None:
    from importlib import import_module

    sums = import_module("apps.ledger.migrations.0010_usage_sums").SUMS
    hold = held(cast.organisation, executions=50)
    for minute in (0, 3, 16, 40):
        used(hold, 2, occurred_from=NOW + timedelta(minutes=minute), occurred_to=NOW + timedelta(hours=1))
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("DELETE FROM ledger_usagesum")
        cursor.execute("SET session_replication_role = DEFAULT")
        cursor.execute(sums.format(source="ledger_usagerow"))
    assert kept(cast.organisation) == summed(cast.organisation) != {}
