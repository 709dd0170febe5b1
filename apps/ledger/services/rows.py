"""How usage rows are written: the text form of COPY, which for many rows is a fraction of the work of statements."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from django.db import connection

from apps.ledger.identity import identity
from apps.ledger.usage import Usage, stamp

COLUMNS = (
    "id", "organisation_id", "contract_id", "lease_id", "idempotency_key", "payload_digest", "quantity", "operations",
    "cycles", "billed_operations", "program_digest", "project_id", "token_id", "model_name", "klass", "rating", "unused",
    "amount", "currency", "occurred_from", "occurred_to", "created_at", "transaction_id",
)  # fmt: skip
_COPY = f"COPY ledger_usagerow ({', '.join(COLUMNS)}) FROM STDIN"
_AT_ONCE = 1 << 18  # bytes handed to the driver at a time; its own measure is 8 KiB, three rows
_ESCAPED = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def rows_write(fresh: Sequence[Usage], transaction_id: UUID, now: datetime) -> None:
    """Write the rows of one transaction."""
    ending = f"\t{stamp(now)}\t{transaction_id}\n"
    text = io.BytesIO("".join([_line(usage) + ending for usage in fresh]).encode())
    with connection.cursor() as cursor, connection.wrap_database_errors:
        cursor.copy_expert(_COPY, text, _AT_ONCE)


def _line(usage: Usage) -> str:
    """A row but for its last two columns; in the order of COLUMNS."""
    rating = usage.rating
    lease, project, token = [
        "\\N" if one is None else one for one in (usage.lease_id, usage.project_id, usage.token_id)
    ]
    key, program, model, klass, priced, currency = _copied(
        usage.idempotency_key, usage.program_digest, usage.model_name, rating.terms.klass, rating.text, rating.currency
    )
    began, ended = usage.period
    return (
        f"{identity(usage.organisation_id, 'usage', usage.idempotency_key)}\t{usage.organisation_id}\t"
        f"{usage.contract_id}\t{lease}\t{key}\t{usage.digest}\t{rating.executions}\t{usage.operations}\t"
        f"{usage.cycles}\t{rating.billed_operations}\t{program}\t{project}\t{token}\t{model}\t{klass}\t{priced}\t"
        f"{'t' if rating.unused else 'f'}\t{rating.amount}\t{currency}\t{began}\t{ended}"
    )


def _copied(*texts: str) -> tuple[str, ...]:
    """Texts as COPY reads them. Most have nothing to escape: looked for in all of them together."""
    whole = "".join(texts)
    if "\\" in whole or "\t" in whole or "\n" in whole or "\r" in whole:
        return tuple(text.translate(_ESCAPED) for text in texts)
    return texts
