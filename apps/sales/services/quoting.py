"""Price requests and store quotes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from django.db import transaction

from apps.accounts.counters import name_clean, number_next
from apps.accounts.models import NumberKind, Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.compilation.models import Precision, Program
from apps.figures import duration_format
from apps.fleet.models import Pool
from apps.fleet.selectors import devices_of
from apps.planner.models import Plan
from apps.pricing.limits import Window, window_of
from apps.pricing.rating import decimal_text, digest_of
from apps.pricing.selectors import book_in_force, document_of
from apps.sales.amendments import amendment_check, amendment_json
from apps.sales.commitments import commitment_at, commitment_covers
from apps.sales.documents import alternatives_of, quote_document
from apps.sales.lines import Quota, QuoteLine
from apps.sales.models import Commitment, Contract, FormName, Quote
from apps.sales.priced import Priced, request_lines_price
from apps.sales.promises import promises_of, promises_settle
from apps.sales.releasing import release_of, takeover_of
from apps.sales.request_lines import QuoteRequestLine, request_lines_measured
from apps.sales.snapshots import quota_snapshot, snapshot_of
from apps.sales.start_times import StartTime, start_times_cheapest, start_times_of
from apps.sales.volumes import MOST_TERA_OPERATIONS, PER_EXECUTION, Form
from apps.timetable.selectors import WINDOWS_MAX

MOST_EXECUTIONS = 10**12


class Pricing(NamedTuple):
    """Priced work. `commitment`: the commitment under which the work is priced; None if there is none."""

    commitment: Commitment | None
    request_lines: list[QuoteRequestLine]
    priced: Priced


class Offer(NamedTuple):
    """The document that a quote would have now, and the priced work."""

    priced: Priced
    document: dict[str, Any]
    starts: list[StartTime]


def offer_make(
    *,
    organisation: Organisation,
    lines: Sequence[QuoteLine | tuple[Program, int]] | Quota,
    klass: str,
    pool: Pool,
    window: tuple[datetime | None, datetime | None] | None,
    now: datetime,
    form: Form = PER_EXECUTION,
    amends: Contract | None = None,
    measured: bool = False,
    identity: dict[str, Any] | None = None,
) -> Offer:
    """Price a request for the live preview, without storing anything. Raises Problem.

    `amends`: the contract that the quote would amend. `measured`: charge measured counts, up to the worst case, for
    programs whose cost depends on their data.
    """
    commitment, request_lines, priced = pricing_make(
        organisation=organisation,
        lines=lines,
        klass=klass,
        pool=pool,
        window=window,
        now=now,
        form=form,
        amends=amends,
        measured=measured,
    )
    alternatives = alternatives_of(request_lines=request_lines, chosen=priced, now=now)
    who = {"organisation": {"id": str(organisation.id), "name": organisation.name}, **(identity or {})}
    if amends is not None:
        _amendable(organisation, amends, priced, now)
        who["amends"] = amendment_json(amends, priced.worst, takeover_of(priced), now=now)
    if commitment is not None:
        who["commitment"] = {"id": str(commitment.id), "kind": commitment.kind}
    starts = start_times_of(priced, zone=organisation.time_zone, now=now)
    cheapest = start_times_cheapest(starts, zone=organisation.time_zone)
    document = quote_document(
        priced=priced, identity=who, alternatives=alternatives, starts=[one.to_json() for one in cheapest], now=now
    )
    return Offer(priced, document, starts)


def pricing_make(
    *,
    organisation: Organisation,
    lines: Sequence[QuoteLine | tuple[Program, int]] | Quota,
    klass: str,
    pool: Pool,
    window: tuple[datetime | None, datetime | None] | None,
    now: datetime,
    form: Form = PER_EXECUTION,
    amends: Contract | None = None,
    measured: bool = False,
) -> Pricing:
    """Price a request without building its document. Raises Problem."""
    document_book = document_of(book_in_force(at=now))
    request_lines, form = _request_lines(organisation, lines, pool, form)
    if measured:
        request_lines = request_lines_measured(request_lines, pool)
    asked = window_of(*(window or (None, None)), now=now)
    _check_ahead(form, asked, now)
    price = partial(request_lines_price, book=document_book, klass=klass, pool=pool, window=asked, now=now, form=form)
    found = _under_commitment(organisation, request_lines, price, amends=amends, now=now)
    price_class = found.priced.price_class
    if not price_class.offered:
        raise Problem(
            422,
            "Not yet available",
            f"{price_class.title} is not available yet. Choose another class.",
            kind="class-not-offered",
        )
    return found


def _request_lines(
    organisation: Organisation, lines: Sequence[QuoteLine | tuple[Program, int]] | Quota, pool: Pool, form: Form
) -> tuple[list[QuoteRequestLine], Form]:
    if isinstance(lines, Quota):
        return [_quota_request_line(lines, pool)], Form(FormName.QUOTA)
    return [_request_line(organisation, QuoteLine(*line)) for line in lines], form


def _check_ahead(form: Form, asked: Window, now: datetime) -> None:
    if form.name == FormName.INTERVAL and asked.start <= now:
        raise Problem(
            422,
            "Too early",
            "The first interval must start in the future. Choose a start that leaves time to accept the quote.",
            kind="form",
        )


def window_check(priced: Priced) -> None:
    """Raise Problem(422) if the work can never fit in its window, even on an empty pool."""
    length = Fraction((priced.window.end - priced.window.start) // timedelta(microseconds=1), 10**6)
    if length >= priced.duration:
        return
    quantum = priced.quantum
    if quantum is not None and length >= priced.setup + quantum:
        pieces = min(len(devices_of(priced.pool)), WINDOWS_MAX)
        if pieces * ((length - priced.setup) // quantum) >= priced.lines[0].request_line.executions:
            return
    raise Problem(
        422,
        "Window too short",
        f"The work takes {duration_format(priced.duration)} of device time, but the window is only "
        f"{duration_format(length)} long. End the window later, or buy less.",
        kind="window",
    )


def _under_commitment(
    organisation: Organisation,
    request_lines: list[QuoteRequestLine],
    price: Callable[..., Priced],
    *,
    amends: Contract | None,
    now: datetime,
) -> Pricing:
    commitment = commitment_at(organisation, at=now, currency=book_in_force(at=now).currency)
    if commitment is not None:
        under = [
            replace(request_line, commitment=commitment.kind, commitment_factor=commitment.factor)
            for request_line in request_lines
        ]
        priced = price(request_lines=under)
        late = release_of(amends, now=now, takeover=takeover_of(priced)).late if amends else None
        if commitment_covers(commitment, priced.worst, priced.window, priced.book, amends=amends, late=late):
            return Pricing(commitment, under, priced)
    return Pricing(None, request_lines, price(request_lines=request_lines))


@transaction.atomic
def quote_create(
    *,
    organisation: Organisation,
    lines: Sequence[QuoteLine | tuple[Program, int]] | Quota,
    klass: str,
    pool: Pool,
    window: tuple[datetime | None, datetime | None] | None = None,
    plan_id: UUID | None = None,
    form: Form = PER_EXECUTION,
    amends: Contract | None = None,
    measured: bool = False,
    candidate: int | None = None,
    name: str = "",
    actor: User | None,
    now: datetime,
) -> Quote:
    """Store an immutable quote with a price lock. Raises Problem if the request cannot be priced.

    `candidate`: the number of the plan's candidate; the default is the chosen candidate. `name`: the customer's own
    name for the quote.
    """
    quote_id, name = uuid4(), name_clean(name)
    identity = {"id": str(quote_id), "plan": str(plan_id) if plan_id else None}
    identity |= _promises(organisation, plan_id, candidate, lines, pool)
    priced, document, _ = offer_make(
        organisation=organisation,
        lines=lines,
        klass=klass,
        pool=pool,
        window=window,
        now=now,
        form=form,
        amends=amends,
        measured=measured,
        identity=identity,
    )
    window_check(priced)
    promises_settle(document)
    quote = Quote.objects.create(
        id=quote_id,
        organisation=organisation,
        number=number_next(organisation_id=organisation.pk, kind=NumberKind.QUOTE),
        name=name,
        plan_id=plan_id,
        pool=pool,
        klass=klass,
        form=priced.form.name,
        amends=amends,
        document=document,
        digest=digest_of(document),
        expected=priced.expected,
        worst=priced.worst,
        currency=priced.book.currency.code,
        created_at=now,
        created_by=actor,
        valid_until=datetime.fromisoformat(document["valid_until"]),
    )
    detail = {"digest": quote.digest, "net": decimal_text(quote.worst), "class": klass, "pool": pool.slug}
    subject = f"quote {quote.id}"
    audit_record(action="quote.create", subject=subject, actor=actor, organisation=organisation, now=now, detail=detail)
    return quote


def _promises(
    organisation: Organisation,
    plan_id: UUID | None,
    candidate: int | None,
    lines: Sequence[QuoteLine | tuple[Program, int]] | Quota,
    pool: Pool,
) -> dict[str, Any]:
    plan = Plan.objects.filter(organisation=organisation, pk=plan_id).first() if plan_id else None
    if plan is None or isinstance(lines, Quota):
        return {}
    chosen: dict[str, Any] | None = plan.chosen if candidate is None else plan.candidates[candidate]
    if chosen is None:
        return {}
    programs = [str(QuoteLine(*line).program.pk) for line in lines]
    if chosen["pool"] != pool.slug or programs != [row["program"] for row in chosen["lines"]]:
        return {}
    planned = int(plan.requirements["items"])
    items = int(Fraction(QuoteLine(*lines[0]).executions * planned, chosen["lines"][0]["executions"]))
    return {
        "promises": promises_of(
            plan_id=str(plan.pk),
            requirements=plan.requirements,
            candidate=chosen,
            basis=plan.basis,
            items=items,
            number=candidate,
        )
    }


def _amendable(organisation: Organisation, contract: Contract, priced: Priced, now: datetime) -> None:
    if contract.organisation_id != organisation.id:
        raise Problem(404, "Not found", "There is no such contract, or you may not see it.", kind="not-found")
    amendment_check(contract, now=now)
    if contract.currency != priced.book.currency.code:
        raise Problem(
            409,
            "Another currency",
            f"The contract is in {contract.currency}, but prices are now in {priced.book.currency.code}.",
            kind="currency",
        )


def _quota_request_line(quota: Quota, pool: Pool) -> QuoteRequestLine:
    if not 1 <= quota.tera_operations <= MOST_TERA_OPERATIONS:
        raise Problem(
            422, "Impossible volume", f"A quota must have 1 to {MOST_TERA_OPERATIONS:,} tera-operations.", kind="volume"
        )
    if quota.precision not in Precision.values:
        raise Problem(422, "No such precision", f"Choose one of {', '.join(Precision.values)}.", kind="precision")
    clock = pool.processor.clock_hz if pool.processor else 0
    snapshot = quota_snapshot(
        {
            "precision": quota.precision,
            "operations": quota.tera_operations * 10**12,
            "target": pool.target,
            "clock_hz": clock,
        }
    )
    return QuoteRequestLine(snapshot, 1, 1)


def _request_line(organisation: Organisation, line: QuoteLine) -> QuoteRequestLine:
    if line.program.organisation_id != organisation.id:
        raise Problem(404, "Not found", "This program does not exist, or you may not see it.", kind="not-found")
    if line.executions < 1:
        raise Problem(422, "Impossible volume", "Enter at least one execution.", kind="volume")
    if line.executions > MOST_EXECUTIONS:
        raise Problem(
            422,
            "Impossible volume",
            f"A quote can have at most {MOST_EXECUTIONS:,} executions. Split the work.",
            kind="volume",
        )
    expected = line.executions if line.expected is None else line.expected
    return QuoteRequestLine(snapshot_of(line.program), line.executions, expected, planned=line.planned)
