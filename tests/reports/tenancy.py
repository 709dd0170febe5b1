"""Who may open the administrator's pages."""

from apps.accounts.roles import Scope
from tests.tenancy import operation, page

ROUTES = [
    page("/capacity", admin=True),
    operation("GET /capacity", scope=Scope.ADMIN),
]
