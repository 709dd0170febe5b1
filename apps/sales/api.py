"""The API of quotes and contracts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from fractions import Fraction
from functools import partial
from typing import Any, Literal, NamedTuple
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router, Schema
from pydantic import Field

from apps.accounts.access import org_object_get, organisation_get, principal_get
from apps.accounts.auth import requires
from apps.accounts.bodies import RequestBody
from apps.accounts.idempotency import idempotent
from apps.accounts.models import Organisation
from apps.accounts.numbers import Instant, Whole
from apps.accounts.paging import Cursor, paginate
from apps.accounts.problems import Problem
from apps.accounts.roles import BUYING, ENGINEERING, Scope
from apps.compilation.models import Program
from apps.fleet.models import Pool
from apps.fleet.selectors import pool_get
from apps.pricing.rating import class_default, decimal_text
from apps.pricing.selectors import book_in_force, document_of
from apps.sales import selectors, services
from apps.sales.buying_api import RefusedOut
from apps.sales.buying_api import router as buying_router
from apps.sales.commitments_api import router as commitments_router
from apps.sales.comparing_api import router as comparing_router
from apps.sales.contracts_api import ContractOut, NameIn, contract_of
from apps.sales.contracts_api import router as contracts_router
from apps.sales.exports import quote_file_response
from apps.sales.filters import QUOTE_STATES, filters_strict, quotes_filter
from apps.sales.holds_api import router as holds_router
from apps.sales.models import Contract, Quote
from apps.sales.nodes_api import router as nodes_router
from apps.sales.plans import plan_lines_get, plan_until_check
from apps.sales.services import QuoteLine
from apps.sales.standing_api import router as standing_router
from apps.sales.standing_selectors import wait_of
from apps.sales.volumes import Form as VolumeForm

router = Router(tags=["quotes and contracts"])
router.add_router("", buying_router)
router.add_router("", commitments_router)
router.add_router("", comparing_router)
router.add_router("", contracts_router)
router.add_router("", holds_router)
router.add_router("", standing_router)
router.add_router("", nodes_router)
BUILD = requires(Scope.BUILD, roles=ENGINEERING)
BUY = requires(Scope.BUY, roles=BUYING)
BIG = 2**63 - 1


class ShareIn(RequestBody):
    days: Whole | None = Field(
        default=None, ge=1, le=365, description="How long the link works, in days. 30 by default."
    )


class LineIn(RequestBody):
    program: UUID
    executions: Whole = Field(ge=1, le=BIG)
    expected: Whole | None = Field(default=None, ge=0, le=BIG)


class WindowIn(RequestBody):
    start: Instant | None = Field(default=None, description="Now by default. A time in the past is treated as now.")
    end: Instant | None = Field(default=None, description="By default, seven days after the start.")


class QuotaIn(RequestBody):
    precision: str = Field(max_length=10)
    tera_operations: Whole = Field(ge=1, le=BIG)


class FormIn(RequestBody):
    """`every` is the length of a part (spread) or of an interval, in seconds. Fractions such as "1/1000" are accepted."""

    name: Literal["execution", "spread", "interval"]
    every: str | None = Field(default=None, pattern=r"^[0-9]{1,9}(\.[0-9]{1,12}|/[1-9][0-9]{0,11})?$")


class QuoteIn(RequestBody):
    """Send one of `lines`, `plan` (with `items`), or `quota`."""

    lines: list[LineIn] = Field(default=[], max_length=20)
    plan: UUID | None = None
    items: Whole | None = Field(default=None, ge=1, le=BIG)
    quota: QuotaIn | None = None
    form: FormIn = FormIn(name="execution")
    klass: str = Field(
        default="",
        max_length=20,
        description=(
            "A class of service in the price book. If empty, `standard` is used; if the price book has no "
            "`standard`, its first class is used."
        ),
    )
    pool: str = Field(default="", pattern=r"^[a-zA-Z0-9_-]{0,40}$")
    window: WindowIn = WindowIn()
    amends: UUID | None = None
    measured: bool = False
    name: str = Field(default="", max_length=800, description="Your own name for the quote: at most 80 characters.")


class QuoteOut(Schema):
    id: UUID
    number: str = Field(description="Unique in the organisation, for example Q-0007.")
    name: str = Field(description="Your own name for the quote; empty if the quote has none.")
    state: Literal["open", "accepted", "expired", "withdrawn"]
    klass: str
    form: str
    pool: str
    net: str
    expected: str
    currency: str
    created_at: datetime
    valid_until: datetime
    digest: str
    share_url: str = Field(description="Empty if there is no share link or the link has expired.")
    share_until: datetime | None
    contract: UUID | None
    amends: UUID | None
    document: dict[str, Any]

    @staticmethod
    def resolve_number(row: Quote) -> str:
        return row.reference

    @staticmethod
    def resolve_state(row: Quote) -> str:
        return row.display_state(now=timezone.now())

    @staticmethod
    def resolve_pool(row: Quote) -> str:
        return row.pool.slug

    @staticmethod
    def resolve_net(row: Quote) -> str:
        return decimal_text(row.worst)

    @staticmethod
    def resolve_expected(row: Quote) -> str:
        return decimal_text(row.expected)

    @staticmethod
    def resolve_share_url(row: Quote) -> str:
        return f"/shared/quotes/{row.share_token}" if row.is_shared(now=timezone.now()) else ""

    @staticmethod
    def resolve_share_until(row: Quote) -> datetime | None:
        return row.share_until if row.is_shared(now=timezone.now()) else None

    @staticmethod
    def resolve_amends(row: Quote) -> UUID | None:
        return row.amends_id

    @staticmethod
    def resolve_contract(row: Quote) -> UUID | None:
        contract = getattr(row, "contract", None)
        return contract.id if contract else None


class WaitOut(Schema):
    """`start` and `seconds` are null if the pool has no room within the days that quotes can cover."""

    pool: str
    start: datetime | None
    seconds: str | None
    said: str

    @staticmethod
    def resolve_seconds(found: Any) -> str | None:
        return None if found.seconds is None else str(found.seconds)


class QuoteDetailOut(QuoteOut):
    """`refused` lists the reasons why the quote could not be accepted now. Capacity and spend caps are not checked.

    `wait` is the wait for free capacity; null if the quote's window has room.
    """

    refused: list[RefusedOut]
    wait: WaitOut | None

    @staticmethod
    def resolve_wait(row: Quote) -> Any:
        now = timezone.now()
        return wait_of(row, now=now) if row.is_valid(now=now) else None

    @staticmethod
    def resolve_refused(row: Quote, context: dict[str, Any]) -> list[Problem]:
        now = timezone.now()
        if not row.is_valid(now=now):
            return []
        return services.acceptance_refusals(row, actor=principal_get(context["request"]).user, now=now)


class PreviewOut(Schema):
    """`refused` lists the reasons why this quote could not be accepted now. Spend caps are checked; capacity is not."""

    document: dict[str, Any]
    refused: list[RefusedOut]


def _quote(request: HttpRequest, pk: UUID, **access: Any) -> Quote:
    return org_object_get(request, Quote.objects.select_related("pool", "contract"), pk=pk, **access)


class _Work(NamedTuple):
    lines: list[QuoteLine] | services.Quota
    pool: Pool
    until: datetime | None = None


def _work(organisation: Organisation, payload: QuoteIn) -> _Work:
    if payload.quota is not None:
        quota = services.Quota(payload.quota.precision, payload.quota.tera_operations)
        return _Work(quota, pool_get(payload.pool))
    if payload.plan is not None:
        planned = plan_lines_get(organisation=organisation, plan_id=payload.plan, items=payload.items)
        plan_until_check(planned.until, end=payload.window.end, now=timezone.now())
        return _Work(planned.lines, pool_get(payload.pool) if payload.pool else planned.pool, planned.until)
    if not payload.lines:
        raise Problem(422, "Nothing to price", "Give `lines`, a `plan` or a `quota`.", kind="nothing-to-price")
    programs = Program.objects.filter(organisation=organisation).in_bulk([line.program for line in payload.lines])
    missing = [str(line.program) for line in payload.lines if line.program not in programs]
    if missing:
        raise Problem(404, "Not found", f"There is no program {missing[0]}, or you may not see it.", kind="not-found")
    lines = [QuoteLine(programs[line.program], line.executions, line.expected) for line in payload.lines]
    return _Work(lines, pool_get(payload.pool))


def _arguments(request: HttpRequest, organisation: Organisation, payload: QuoteIn) -> dict[str, Any]:
    work = _work(organisation, payload)
    every = None if payload.form.every is None else Fraction(payload.form.every)
    return {
        "organisation": organisation,
        "lines": work.lines,
        "klass": payload.klass or class_default(document_of(book_in_force(at=timezone.now()))),
        "pool": work.pool,
        "window": (payload.window.start, payload.window.end or work.until),
        "form": VolumeForm(payload.form.name, every),
        "measured": payload.measured,
        "amends": None if payload.amends is None else contract_of(request, payload.amends, roles=ENGINEERING),
    }


@router.post(
    "/quotes/preview", auth=BUILD, response=PreviewOut, operation_id="quote_preview", summary="Price, store nothing"
)
def quote_preview(request: HttpRequest, payload: QuoteIn) -> dict[str, Any]:
    """Returns the document of the quote without creating the quote."""
    organisation, principal, now = organisation_get(request, roles=ENGINEERING), principal_get(request), timezone.now()
    arguments = _arguments(request, organisation, payload)
    offer = services.offer_make(**arguments, now=now)
    refused = services.offer_refusals(
        organisation=organisation,
        offer=offer,
        amends=arguments["amends"],
        actor=principal.user,
        now=now,
        token_id=principal.token.pk if principal.token else None,
    )
    return {"document": offer.document, "refused": refused}


@router.post("/quotes", auth=BUILD, response={201: QuoteDetailOut}, operation_id="quote_create", summary="Make a quote")
@idempotent
def quote_create(request: HttpRequest, payload: QuoteIn) -> tuple[int, Quote]:
    """The price is locked until `valid_until`. Nothing is reserved until the quote is accepted."""
    organisation = organisation_get(request, roles=ENGINEERING)
    return 201, services.quote_create(
        **_arguments(request, organisation, payload),
        plan_id=payload.plan,
        name=payload.name,
        actor=principal_get(request).user,
        now=timezone.now(),
    )


@router.get("/quotes", response=list[QuoteOut], operation_id="quote_list", summary="Quotes")
@paginate(Cursor, ordering=("-created_at", "-id"))
def quote_list(request: HttpRequest, state: str = "", form: str = "", project: str = "") -> QuerySet[Quote]:
    """Returns the newest quotes first."""
    rows = selectors.quotes_of(organisation_get(request))
    filters = filters_strict(states=[name for name, _ in QUOTE_STATES], state=state, form=form, project=project)
    return quotes_filter(rows, filters, now=timezone.now())


@router.get("/quotes/{uuid:pk}", response=QuoteDetailOut, operation_id="quote_get", summary="One quote")
def quote_get(request: HttpRequest, pk: UUID) -> Quote:
    """Returns every line and every price step."""
    return _quote(request, pk)


@router.patch("/quotes/{uuid:pk}", auth=BUILD, response=QuoteOut, operation_id="quote_rename", summary="Name a quote")
def quote_rename(request: HttpRequest, pk: UUID, payload: NameIn) -> Quote:
    """Sets the name; the quoted content does not change."""
    return _change(request, pk, partial(services.quote_rename, name=payload.name))


@router.get("/quotes/{uuid:pk}/file", operation_id="quote_file", summary="A quote as PDF, CSV or JSON")
def quote_file(request: HttpRequest, pk: UUID, kind: Literal["pdf", "csv", "json"] = "pdf") -> HttpResponse:
    """Returns the stored document as a file."""
    return quote_file_response(_quote(request, pk), kind)


@router.post(
    "/quotes/{uuid:pk}/accept",
    auth=BUY,
    response={201: ContractOut},
    operation_id="quote_accept",
    summary="Accept a quote",
)
@idempotent
def quote_accept(request: HttpRequest, pk: UUID) -> tuple[int, Contract]:
    """Reserves the capacity and places the hold. If the capacity is no longer free, answers 409 and lists alternatives."""
    quote, principal = _quote(request, pk, roles=BUYING), principal_get(request)
    return 201, services.quote_accept(
        quote_id=quote.id,
        organisation=quote.organisation,
        actor=principal.user,
        now=timezone.now(),
        token_id=principal.token.pk if principal.token else None,
    )


def _change(request: HttpRequest, pk: UUID, service: Callable[..., Quote]) -> Quote:
    quote = _quote(request, pk, roles=ENGINEERING)
    service(quote_id=quote.id, organisation=quote.organisation, actor=principal_get(request).user, now=timezone.now())
    return _quote(request, pk)


@router.post(
    "/quotes/{uuid:pk}/withdraw",
    auth=BUILD,
    response=QuoteOut,
    operation_id="quote_withdraw",
    summary="Withdraw a quote",
)
def quote_withdraw(request: HttpRequest, pk: UUID) -> Quote:
    """A withdrawn quote cannot be accepted. Safe to repeat."""
    return _change(request, pk, services.quote_withdraw)


@router.post(
    "/quotes/{uuid:pk}/share", auth=BUILD, response=QuoteOut, operation_id="quote_share", summary="Create a share link"
)
def quote_share(request: HttpRequest, pk: UUID, payload: ShareIn | None = None) -> Quote:
    """Creates a public link that works for `days` days (30 by default). An existing link keeps its URL. Safe to repeat.

    A withdrawn quote is refused with 409.
    """
    return _change(request, pk, partial(services.quote_share, days=payload.days if payload else None))


@router.delete(
    "/quotes/{uuid:pk}/share",
    auth=BUILD,
    response=QuoteOut,
    operation_id="quote_unshare",
    summary="Revoke a share link",
)
def quote_unshare(request: HttpRequest, pk: UUID) -> Quote:
    """The link stops working at once. Safe to repeat."""
    return _change(request, pk, services.quote_unshare)
