"""Who may open the addresses of the ledger."""

from __future__ import annotations

from tests.tenancy import operation

ROUTES = [operation("GET /ledger/chain")]
