"""Rows are written in the database's own binary form: what is read back must be what was meant, to the last digit."""

from __future__ import annotations

import io
from datetime import timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from hypothesis import example, given, settings
from hypothesis import strategies as st

from apps.ledger.identity import identity, identity_bytes
from apps.ledger.models import UsageRow
from apps.ledger.reconciling import reconcile
from apps.ledger.services import usage_post_batch
from apps.ledger.services.rows import _HEAD, _TAIL, _exact, _whole
from apps.pricing.rating import canonical_json
from tests.cast import Cast
from tests.ledger.money import NOW, held, usage

WHOLE = st.integers(-(10**200), 10**200)
EXACT = st.decimals(allow_nan=False, allow_infinity=False, places=40) | st.builds(
    lambda number, exponent: Decimal(number).scaleb(exponent), st.integers(-(10**20), 10**20), st.integers(-40, 20)
)


@pytest.mark.django_db(transaction=True)
@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(WHOLE, EXACT), min_size=1, max_size=30))
@example([(0, Decimal(0)), (9999, Decimal("0.00010000")), (10_000, Decimal("1E+4")), (-1, Decimal("-0.0001"))])
def test_a_number_is_the_same_in_the_database(pairs: list[tuple[int, Decimal]]) -> None:
    rows = b"".join(b"\0\2" + _whole(whole) + _exact(exact) for whole, exact in pairs)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE given (at serial, whole numeric, exact numeric)")
        try:
            cursor.copy_expert("COPY given (whole, exact) FROM STDIN (FORMAT binary)", io.BytesIO(_HEAD + rows + _TAIL))
            cursor.execute("SELECT whole, exact FROM given ORDER BY at")
            assert cursor.fetchall() == pairs
        finally:
            cursor.execute("DROP TABLE given")


@given(st.uuids(), st.text())
def test_an_id_is_the_same_in_bytes(organisation: UUID, key: str) -> None:
    try:
        expected = identity(organisation, "usage", key).bytes
    except UnicodeEncodeError:  # half a character, which no text may have
        with pytest.raises(UnicodeEncodeError):
            identity_bytes(organisation.bytes, "usage", key)
    else:
        assert identity_bytes(organisation.bytes, "usage", key) == expected


@pytest.mark.django_db
def test_a_row_is_read_as_it_was_meant(cast: Cast) -> None:
    hold = held(cast.organisation, executions=100)
    late = (NOW + timedelta(microseconds=1)).astimezone(timezone(timedelta(hours=-5)))
    odd: list[dict[str, Any]] = [
        {"model_name": 'a\tb\\N\n"\r\u00e9\U0001f600', "lease_id": uuid4()},
        {"project_id": uuid4(), "token_id": uuid4(), "occurred_from": late, "occurred_to": late + timedelta(days=400)},
        {"model_name": "", "program_digest": "short"},
    ]
    meant = [usage(hold, 1 + number, key=f"k\té{number}", **changes) for number, changes in enumerate(odd)]
    posted = usage_post_batch(meant, now=NOW)
    rows = {row.idempotency_key: row for row in UsageRow.objects.filter(transaction=posted.transaction)}
    for one in meant:
        row = rows[one.idempotency_key]
        assert {name: getattr(row, name) for name in one.columns()} == one.columns()
        assert row.created_at == NOW
        with connection.cursor() as cursor:
            cursor.execute("SELECT rating::text FROM ledger_usagerow WHERE id = %s", [row.pk])
            assert cursor.fetchone() == (one.rating.text,)
        assert one.rating.text == canonical_json(row.rating)
    assert reconcile(cast.organisation.id).differences == []
