"""No address takes more queries with many rows than with few: every GET that the rooms declare, asked for by who may.

A page that asks for each row apart from the others passes every other test and is slow with a year of work in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import User
from apps.invoicing import selectors
from tests import tenancy
from tests.cast import Cast
from tests.config.growth import Growth, rows_counted
from tests.sales.market import open_market
from tests.tenancy import Route
from tests.tiers import WHOLE

FEW, MANY = 2, 8 if WHOLE else 4
GETS = [route for route in tenancy.declared() if route.method == "GET" and not route.step]
# Files hold everything that there is: their rows are read in pieces of a fixed size.
FILES = {"GET /api/v1/ledger/chain", "GET /portal/focus.csv", "GET /portal/focus.parquet", "GET /api/v1/usage/focus"}
# Tables that do not grow here: one row for an organisation, a month or a state of the world; what only Stripe writes; and
# what few pages show a handful of.
FIXED = {
    "accounts.Counter",
    "accounts.IdempotencyRecord",
    "billing.BillingProfile",
    "billing.CreditEnd",
    "billing.CreditNoteCounter",
    "billing.DunningStep",
    "billing.InvoiceCounter",
    "billing.KeptDraft",
    "billing.Payment",
    "billing.ReleasedUsage",
    "demo.SampleStep",
    "collection.StripeCall",
    "collection.StripeCustomer",
    "billing.StripeFact",
    "collection.StripePush",
    "notifications.WebhookEndpoint",
    "compilation.OwnProcessor",
    "dispatch.DeviceHour",
    "dispatch.JobLabels",
    "fleet.HostMeasurement",
    "fleet.Pool",
    "fleet.ProcessorVersion",
    "fleet.Site",
    "ledger.Account",
    "ledger.Chain",
    "ledger.ChainRoot",
    "ledger.Spend",
    "planner.OwnMachine",
    "planner.PlaceMeasurement",
    "planner.PriceListFile",
    "planner.RentedPrice",
    "pricing.PriceBook",
    "registry.Evaluation",
    "registry.ModelFamily",
    "pages.SavedFilter",
    "registry.UploadPart",
    "reports.ControllerRule",
    "sales.BuyingRules",
    "sales.ContractQuota",
    "sales.OrganisationStanding",
    "sales.PlanHold",
    "sales.ContractReview",
}

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]


@pytest.fixture(scope="module")
def grown_once(shared_cast: Cast) -> Growth:
    """Few copies of everything, for all tests here."""
    made = Growth(shared_cast, open_market())
    made.until(FEW)
    return made


@pytest.fixture
def growth(cast: Cast, grown_once: Growth) -> Growth:
    """Few copies of everything. Asking for `cast` has the file share one, see `share_cast`."""
    return deepcopy(grown_once)


class Asker:
    """Asks for addresses as the owner or the administrator, and counts the queries of each."""

    def __init__(self, growth: Growth, as_user: AsUser) -> None:
        self.growth, self.cast = growth, growth.cast
        self.owner, self.stranger, self.admin = (
            as_user(one) for one in (self.cast.owner, self.cast.stranger, self.cast.admin)
        )

    def counted(self, routes: list[Route], few: dict[str, list[str]] | None = None) -> dict[str, list[str]]:
        """The queries of each address, by its key: of the second of two requests, since the first fills caches; beside `few`
        of the first, unless it took more."""
        found = {}
        for route in routes:
            with self._values(route) as (values, is_grown):
                client = self.admin if route.admin else self.owner if is_grown else self.stranger
                queries = _asked(client, route, values)
                if few is None or len(queries) > len(few[route.key]):
                    queries = _asked(client, route, values)
            found[route.key] = queries
        return found

    @contextmanager
    def _values(self, route: Route) -> Iterator[tuple[dict[str, Any], bool]]:
        """What the address names: the large object of its kind, else one that is made for the stranger and gone again; and
        whether it is of the customer who grows."""
        kind = kind_of(route)
        known: dict[str, Any] = {"kind": "csv", "version": 1, "name": "reference/glossary" if kind == "docs" else "lpu"}
        large = self.growth.objects.get(kind)
        values = {name: large.pk if name == "pk" and large else known.get(name) for name in route.parameters}
        if None not in values.values():
            yield values, True
            return
        with transaction.atomic():
            other = replace(self.cast, organisation=self.cast.stranger_organisation)
            try:
                yield route.make(other) if route.make else {}, False
            finally:
                transaction.set_rollback(True)


def kind_of(route: Route) -> str:
    """The first part of the address; an administrator's page of an invoice is about an invoice."""
    return "invoices" if "/customers/invoices" in route.path else route.path.removeprefix("/api/v1").split("/")[1]


def _asked(client: Client, route: Route, values: dict[str, Any]) -> list[str]:
    with CaptureQueriesContext(connection) as caught:
        response = client.get(route.address(values))
        if getattr(response, "streaming", False):
            for _ in response:  # type: ignore[attr-defined]
                pass
    assert response.status_code < 500, (route.key, response.status_code)
    return [one["sql"] for one in caught.captured_queries]


def more(few: dict[str, list[str]], many: dict[str, list[str]]) -> dict[str, str]:
    """The addresses that took more queries with many rows, each with the queries that came more often."""
    found = {}
    for key, queries in many.items():
        if len(queries) > len(few[key]):
            kinds = [one[:120] for one in queries]
            often = {one: kinds.count(one) for one in dict.fromkeys(kinds)}
            before = [one[:120] for one in few[key]]
            grown = {one: times for one, times in often.items() if times > before.count(one)}
            found[key] = f"{len(few[key])} -> {len(queries)}: {grown}"
    return found


def test_no_address_takes_more_queries_with_many_rows_than_with_few(growth: Growth, as_user: AsUser) -> None:
    asker, rows = Asker(growth, as_user), rows_counted()
    routes = [route for route in GETS if route.key not in FILES]
    few = asker.counted(routes)
    growth.until(MANY)
    grown = rows_counted()
    wrong = [f"{key} {grown}" for key, grown in more(few, asker.counted(routes, few)).items()]
    still = sorted(label for label, count in grown.items() if count < rows[label] + MANY - FEW)
    wrong += [f"{label} does not grow" for label in still if label not in FIXED]
    assert not wrong, "\n".join(wrong)


def test_a_page_that_asks_for_each_row_is_found(
    growth: Growth, as_user: AsUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same comparison over two lists in which each row is asked for its number apart from the others."""
    planted = selectors.invoices_of
    monkeypatch.setattr(
        selectors, "invoices_of", lambda organisation: planted(organisation).defer("number", "document")
    )
    asker = Asker(growth, as_user)
    routes = [route for route in GETS if route.key in {"GET /invoices", "GET /contracts", "GET /portal"}]
    few = asker.counted(routes)
    growth.until(FEW + 2)
    assert more(few, asker.counted(routes)).keys() >= {"GET /invoices"}
    assert "GET /contracts" not in more(few, asker.counted(routes))
