"""The terms and volumes that a contract takes from its quote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from apps.sales.models import Contract, ContractLine, ContractQuota, Quote
from apps.sales.request_lines import QuoteRequestLine

# The parts of a quote's document that become the terms of its contract.
TERMS = (
    "amends",
    "book",
    "commitment",
    "currency",
    "class",
    "form",
    "pool",
    "window",
    "tariff",
    "lines",
    "loading",
    "minimum",
    "late",
    "net",
    "expected",
    "plan",
    "promises",
)


def terms_of(quote: Quote) -> dict[str, Any]:
    """Return the parts of the quote that the contract freezes."""
    return {
        "format": "takt-terms/1",
        "quote": {"id": str(quote.id), "digest": quote.digest},
        **{key: quote.document[key] for key in TERMS if key in quote.document},
    }


def volumes_store(contract: Contract, request_lines: Sequence[QuoteRequestLine]) -> None:
    """Store the bought executions of each program, or the operations of a quota."""
    ContractLine.objects.bulk_create(
        ContractLine(
            contract=contract,
            number=number,
            program_id=UUID(request_line.snapshot.program_id),
            program_digest=request_line.snapshot.digest,
            executions=request_line.executions,
        )
        for number, request_line in enumerate(request_lines, 1)
        if not request_line.snapshot.is_quota
    )
    for request_line in request_lines:
        if request_line.snapshot.is_quota:
            ContractQuota.objects.create(
                contract=contract,
                precision=request_line.snapshot.precision,
                operations=request_line.snapshot.operations,
            )
