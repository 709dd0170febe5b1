"""Who may open the addresses of the portal."""

from __future__ import annotations

from apps.accounts.roles import MONEY, OWNING, Scope
from tests.invoicing.tenancy import a_million
from tests.tenancy import operation, page

ROUTES = [
    page("/settings/organisation/delete", "GET", "POST", roles=OWNING),
    operation("GET /customers/{uuid:pk}/tax", scope=Scope.ADMIN, make=lambda cast: {"pk": cast.organisation.pk}),
    operation(
        "PUT /customers/{uuid:pk}/tax",
        scope=Scope.ADMIN,
        make=lambda cast: {"pk": cast.organisation.pk},
        body={"scheme": "exempt"},
    ),
    operation("POST /refunds", scope=Scope.ADMIN, body={"organisation": "0", "amount": "1.00", "reference": "7/11"}),
    page("/portal"),
    page("/portal/usage"),
    page("/portal/contracts"),
    page("/portal/credits"),
    page("/portal/caps"),
    page("/portal/caps", "POST", roles=MONEY),
    page("/portal/ledger", "GET", "POST"),
    page("/customers", admin=True),
    page("/customers/<uuid:pk>", "GET", "POST", admin=True, make=lambda cast: {"pk": cast.organisation.pk}),
    page("/customers/invoices/<uuid:pk>", "GET", "POST", admin=True, make=a_million),
    operation("GET /usage/summary"),
]
