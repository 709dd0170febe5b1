"""Every page and list of the site, asked for one by one in this process, over the organisation that `filling` made."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from importlib import import_module
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django.test import Client

    from tests.cast import Cast
    from tests.tenancy import Route

# They hold everything that there is, read in portions: files, not pages, and judged neither by their time nor their queries.
FILES = (
    "/portal/focus.csv",
    "/portal/focus.parquet",
    "/api/v1/usage/focus",
    "/api/v1/ledger/chain",
    "/api/v1/invoices/{uuid:pk}/file",
    "/invoices/<uuid:pk>/invoice.<str:kind>",
)

# Mails that the product does not send, a second factor that the owner does not have, a page for a token of its own, and a
# comparison that names what it compares.
ABSENT = (
    "/mail",
    "/settings/two-factor/app/remove",
    "/settings/two-factor/recovery",
    "/metrics",
    "/api/v1/quotes/compare",
)

LONG = 2000.0  # milliseconds, after which an address is not asked for again


@dataclass(frozen=True)
class Measured:
    """What one address took: the median of some times, the number of queries of one request, and how often the most
    frequent of them was made."""

    name: str
    milliseconds: float
    queries: int
    repeated: int
    status: int
    is_file: bool


def measure(*, times: int, only: str = "", explain: bool = False) -> list[Measured]:
    """Every address that is read with GET, as somebody who may."""
    from django.conf import settings

    from tests import tenancy

    import_module(
        "apps.config.wsgi"
    )  # everything is loaded, and left alone by the collector, as in the web's processes
    settings.ALLOWED_HOSTS = ["*"]
    cast, found = the_cast(), []
    owner, stranger, admin = (_signed_in(one) for one in (cast.owner, cast.stranger, cast.admin))
    for route in tenancy.declared():
        if route.method == "GET" and only in route.key and route.path not in ABSENT:
            with _object(route, cast) as (values, is_filled):
                person = admin if route.admin else owner if is_filled else stranger
                found.append(_one(route, person, values, times, explain=explain))
    return found


def the_cast() -> Cast:
    """The people that the filling made."""
    from apps.accounts.models import Organisation, User
    from apps.accounts.roles import Role
    from tests.cast import Cast

    users = {user.email.split("@")[0]: user for user in User.objects.all()}
    organisations = {one.slug: one for one in Organisation.objects.all()}
    return Cast(
        organisation=organisations["acme-vision"],
        stranger=users["stranger"],
        stranger_organisation=organisations["other-works"],
        admin=users["admin"],
        **{role.value: users[role.label.lower()] for role in Role},
    )


def _signed_in(user: Any) -> Client:
    from django.test import Client

    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


@contextmanager
def _object(route: Route, cast: Cast) -> Iterator[tuple[dict[str, Any], bool]]:
    """What the address names: the largest of its kind where the filling made some, else one made for the other customer
    and gone again; and whether it is the large customer's."""
    from django.db import transaction

    known = {
        **objects(cast),
        "kind": "csv",
        "version": 1,
        "name": "reference/glossary" if _kind(route) == "docs" else "lpu",
    }
    values = {name: known.get(_kind(route) if name == "pk" else name) for name in route.parameters}
    needs_row = route.make is not None and not route.parameters  # of which there is one, or none yet
    if None not in values.values() and not needs_row:
        yield values, True
        return
    with transaction.atomic():
        try:
            other = replace(cast, organisation=cast.stranger_organisation)
            yield route.make(other) if route.make else {}, False
        finally:
            transaction.set_rollback(True)


def _kind(route: Route) -> str:
    """The first part of the address; an administrator's page of an invoice is about an invoice."""
    return "invoices" if "/customers/invoices" in route.path else route.path.removeprefix("/api/v1").split("/")[1]


def objects(cast: Cast) -> dict[str, Any]:
    """By the first part of their addresses: those with the most rows behind them."""
    from django.db.models import Count

    from apps.dispatch.models import Job
    from apps.invoicing.models import Invoice
    from apps.reports.models import ReconciliationRun
    from apps.sales.models import Contract, Quote

    contract = (
        Contract.objects.filter(organisation=cast.organisation).annotate(n=Count("jobs")).order_by("-n", "id").first()
    )
    invoice = (
        Invoice.objects.filter(organisation=cast.organisation).annotate(n=Count("lines")).order_by("-n", "id").first()
    )
    quote = Quote.objects.filter(organisation=cast.organisation, state="open").order_by("-created_at").first()
    job = Job.objects.filter(contract=contract, state="done").order_by("id").first()
    found = {
        "contracts": contract,
        "invoices": invoice,
        "quotes": quote,
        "jobs": job,
        "customers": cast.organisation,
        "reconciliations": ReconciliationRun.objects.order_by("started_at").last(),
        "organisation": cast.organisation,
    }
    return {name: one.pk for name, one in found.items() if one is not None}


def _one(route: Route, client: Client, values: dict[str, Any], times: int, *, explain: bool) -> Measured:
    from django.db import connection

    ask = _asking(route, client, values)
    if times:
        ask()  # once for what is imported and compiled at the first use
    queries: list[str] = []
    texts: Counter[str] = Counter()

    def listen(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        began = time.perf_counter()
        try:
            return execute(sql, *rest)
        finally:
            texts[sql] += 1
            queries.append(f"{(time.perf_counter() - began) * 1000:6.1f} ms  {sql[:700]}")

    with connection.execute_wrapper(listen):
        status = ask()
    if explain:
        print(*queries, sep="\n")
    taken: list[float] = []
    while len(taken) < times and sum(taken) < LONG:
        began = time.perf_counter()
        ask()
        taken.append((time.perf_counter() - began) * 1000)
    repeated = max(texts.values(), default=0)
    return Measured(route.key, median(taken or [0.0]), len(queries), repeated, status, route.path in FILES)


def _asking(route: Route, client: Client, values: dict[str, Any]) -> Callable[[], int]:
    address = route.address(values)

    def ask() -> int:
        response = client.get(address)
        if getattr(response, "streaming", False):
            for _ in response:
                pass
        return response.status_code

    return ask


def acceptances(count: int) -> dict[str, float]:
    """How long it takes to accept one more quote: median and the slowest of so many, which are then ended again."""
    from django.utils import timezone

    from apps.compilation.models import Program
    from apps.fleet.models import Pool
    from apps.sales.services import QuoteLine, contract_end, quote_accept, quote_create

    cast, now, taken = the_cast(), timezone.now(), []
    program = Program.objects.filter(organisation=cast.organisation).order_by("id").first()
    pool = Pool.objects.get(slug="lpu-a")
    assert program
    for _ in range(count):
        quote = quote_create(
            organisation=cast.organisation,
            lines=[QuoteLine(program, 1000)],
            klass="standard",
            pool=pool,
            window=(now, now + timedelta(days=1)),
            actor=cast.engineer,
            now=now,
        )
        began = time.perf_counter()
        contract = quote_accept(quote_id=quote.pk, organisation=cast.organisation, actor=cast.owner, now=now)
        taken.append((time.perf_counter() - began) * 1000)
        contract_end(contract_id=contract.pk, organisation=cast.organisation, actor=cast.owner, now=now)
    return {"acceptance, median": median(taken), f"acceptance, slowest of {count}": max(taken)}
