"""Who may open the administrator's pages."""

from apps.accounts.roles import Scope
from tests.tenancy import operation, page

ROUTES = [
    page("/capacity", admin=True),
    page("/revenue", admin=True),
    operation("GET /revenue", scope=Scope.ADMIN),
    operation("GET /capacity", scope=Scope.ADMIN),
]
