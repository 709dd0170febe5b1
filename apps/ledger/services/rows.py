"""Writes usage rows with binary COPY, which spares the server from parsing text."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from struct import Struct
from uuid import UUID

from django.db import connection

from apps.ledger.identity import identity_bytes
from apps.ledger.usage import Usage
from apps.pricing.rating import decimal_text

# In the order of `_row`.
COLUMNS = (
    "id",
    "contract_id",
    "payload_digest",
    "quantity",
    "unused",
    "occurred_from",
    "occurred_to",
    "organisation_id",
    "created_at",
    "transaction_id",
    "currency",
    "operations",
    "cycles",
    "billed_operations",
    "amount",
    "lease_id",
    "project_id",
    "token_id",
    "program_digest",
    "model_name",
    "klass",
    "idempotency_key",
    "rating",
)
_COPY = f"COPY ledger_usagerow ({', '.join(COLUMNS)}) FROM STDIN (FORMAT binary)"
_AT_ONCE = 1 << 18  # bytes handed to the driver at a time; its own measure is 8 KiB, three rows
_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # neither flags nor an extension
_TAIL = b"\xff\xff"
# Every value has its length before it: those whose length is known, from the number of columns on.
_FIXED = Struct(">h i16s i16s i64s iq i? iq iq").pack
_COMMON = Struct(">i16s iq i16s").pack
_LENGTH = Struct(">i").pack
_NULL = _LENGTH(-1)
_SIXTEEN = _LENGTH(16)
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MINUS = 0x4000


def rows_write(fresh: Sequence[Usage], transaction_id: UUID, now: datetime) -> None:
    """Write the usage rows of one transaction. All rows must have the same organisation and currency."""
    organisation = fresh[0].organisation_id.bytes
    common = _COMMON(16, organisation, 8, _instant(now), 16, transaction_id.bytes) + _text(fresh[0].rating.currency)
    data = b"".join([_HEAD, *[_row(usage, organisation, common) for usage in fresh], _TAIL])
    with connection.cursor() as cursor, connection.wrap_database_errors:
        cursor.copy_expert(_COPY, io.BytesIO(data), _AT_ONCE)


def _row(usage: Usage, organisation: bytes, common: bytes) -> bytes:
    rating, key, operations = usage.rating, usage.idempotency_key.encode(), _whole(usage.operations)
    billed, priced = rating.billed_operations, rating.text.encode()
    fixed = _FIXED(
        len(COLUMNS),
        16,
        identity_bytes(organisation, "usage", usage.idempotency_key),
        16,
        usage.contract_id.bytes,
        64,
        usage.digest.encode(),
        8,
        rating.executions,
        1,
        rating.unused,
        8,
        _instant(usage.occurred_from),
        8,
        _instant(usage.occurred_to),
    )
    return b"".join(
        [
            fixed,
            common,
            operations,
            _whole(usage.cycles),
            operations if billed == usage.operations else _whole(billed),
            _exact(rating.amount),
            _uuid(usage.lease_id),
            _uuid(usage.project_id),
            _uuid(usage.token_id),
            _text(usage.program_digest),
            _text(usage.model_name),
            _text(rating.terms.klass),
            _LENGTH(len(key)),
            key,
            _LENGTH(len(priced)),
            priced,
        ]
    )


def _instant(instant: datetime) -> int:
    return (instant - _EPOCH) // _MICROSECOND


def _uuid(value: UUID | None) -> bytes:
    return _NULL if value is None else _SIXTEEN + value.bytes


@lru_cache(maxsize=1024)
def _text(text: str) -> bytes:
    data = text.encode()
    return _LENGTH(len(data)) + data


def _whole(number: int) -> bytes:
    return _numeric(number, 0, 0)


def _exact(amount: Decimal) -> bytes:
    whole, _, places = decimal_text(amount).partition(".")
    missing = -len(places) % 4
    return _numeric(int(whole + places) * 10**missing, (len(places) + missing) // 4, len(places))


def _numeric(number: int, behind: int, places: int) -> bytes:
    # `behind` is the number of four-digit groups after the decimal point.
    sign = _MINUS if number < 0 else 0
    number, groups = abs(number), []
    while number:
        number, group = divmod(number, 10_000)
        groups.append(group)
    groups.reverse()
    count = len(groups)
    return _numeric_pack(count)(8 + 2 * count, count, count - 1 - behind, sign, places, *groups)


@lru_cache(maxsize=64)
def _numeric_pack(groups: int) -> Callable[..., bytes]:
    return Struct(f">ihhHH{groups}H").pack
