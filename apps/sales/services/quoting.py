"""What changes quotes and contracts. `quote_accept` is the one place where capacity and money are taken together."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple, TypeVar
from uuid import UUID, uuid4

from django.db import transaction

from apps.accounts.idempotency import keep
from apps.accounts.models import Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.compilation.models import Precision, Program
from apps.fleet.models import Pool
from apps.ledger.services import HOLD_GRACE, hold_place
from apps.pricing.rating import decimal_text, digest_of, exact_sum
from apps.pricing.selectors import book_in_force, book_of_digest, document_of
from apps.sales.asks import Ask, ask_of
from apps.sales.documents import Priced, alternatives_of, price_asks, quote_document
from apps.sales.facts import facts_of, project_uuid, quota_facts
from apps.sales.limits import Window, window_of
from apps.sales.models import Contract, ContractLine, ContractQuota, FormName, Quote, QuoteState
from apps.sales.volumes import MOST_TERA_OPERATIONS, PER_EXECUTION, Form
from apps.timetable.models import Reservation
from apps.timetable.services import CapacityTaken, refusal_record, reservation_replace, reservation_take

MOST_EXECUTIONS = 10**12
T = TypeVar("T")


class QuoteLine(NamedTuple):
    """A program and its volume; `expected` when fewer executions are expected than the worst case (a cascade)."""

    program: Program
    executions: int
    expected: int | None = None


class Quota(NamedTuple):
    """So many tera-operations of any program in one precision."""

    precision: str
    tera_operations: int


class Offer(NamedTuple):
    """What a quote would say now, and how it was priced."""

    priced: Priced
    document: dict[str, Any]


def offer_make(
    *,
    organisation: Organisation,
    lines: Sequence[QuoteLine | tuple[Program, int]] | Quota,
    klass: str,
    pool: Pool,
    window: tuple[datetime | None, datetime | None] | None,
    now: datetime,
    form: Form = PER_EXECUTION,
    identity: dict[str, Any] | None = None,
) -> Offer:
    """Price without storing anything: what the page shows while the controls move. Raises Problem."""
    document_book = document_of(book_in_force(at=now))
    if isinstance(lines, Quota):
        asks, form = [_quota_ask(lines, pool)], Form(FormName.QUOTA)
    else:
        asks = [_ask(organisation, QuoteLine(*line)) for line in lines]
    start, end = window or (None, None)
    asked = window_of(start, end, now=now)
    if form.name == FormName.INTERVAL and asked.start <= now:
        raise Problem(
            422, "Too early", "A granular interval begins at an instant to come; name it, with time to accept the quote.",
            kind="form",
        )  # fmt: skip
    priced = price_asks(asks=asks, book=document_book, klass=klass, pool=pool, window=asked, now=now, form=form)
    if not priced.price_class.offered:
        raise Problem(
            422,
            "Not yet available",
            f"{priced.price_class.title} is not yet available; choose another class.",
            kind="class-not-offered",
        )
    alternatives = alternatives_of(asks=asks, chosen=priced, now=now)
    who = {"organisation": {"id": str(organisation.id), "name": organisation.name}, **(identity or {})}
    return Offer(priced, quote_document(priced=priced, identity=who, alternatives=alternatives, now=now))


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
    actor: User | None,
    now: datetime,
) -> Quote:
    """Store an immutable quote: its price is locked until `valid_until`. Raises Problem for what cannot be priced."""
    quote_id = uuid4()
    identity = {"id": str(quote_id), "plan": str(plan_id) if plan_id else None}
    priced, document = offer_make(
        organisation=organisation, lines=lines, klass=klass, pool=pool, window=window, now=now, form=form,
        identity=identity,
    )  # fmt: skip
    quote = Quote.objects.create(
        id=quote_id,
        organisation=organisation,
        plan_id=plan_id,
        pool=pool,
        klass=klass,
        form=priced.form.name,
        document=document,
        digest=digest_of(document),
        expected=priced.expected,
        worst=priced.worst,
        currency=priced.book.currency.code,
        created_at=now,
        created_by=actor,
        valid_until=datetime.fromisoformat(document["valid_until"]),
        share_token=secrets.token_urlsafe(32),
    )
    audit_record(
        action="quote.create", subject=f"quote {quote.id}", actor=actor, organisation=organisation, now=now,
        detail={"digest": quote.digest, "net": decimal_text(quote.worst), "class": klass, "pool": pool.slug},
    )  # fmt: skip
    return quote


def quote_accept(
    *, quote_id: UUID, organisation: Organisation, actor: User | None, now: datetime, token_id: UUID | None = None
) -> Contract:
    """Turn a quote into a contract: capacity, hold and terms are taken together or not at all (T4).

    `token_id` is the API token that accepts, whose own spend cap holds too. Raises Problem: the quote is expired or
    accepted, the capacity is gone (with alternatives), a cap is reached.
    """
    try:
        return _accept(quote_id=quote_id, organisation=organisation, actor=actor, now=now, token_id=token_id)
    except CapacityTaken as refusal:
        quote = Quote.objects.select_related("pool").get(pk=quote_id)
        note = partial(
            refusal_record,
            organisation_id=organisation.id,
            pool=quote.pool,
            klass=quote.klass,
            duration=Fraction(quote.document["device_seconds"]),
            reason=refusal.detail,
            now=now,
        )
        keep(note)
        raise


@transaction.atomic
def _accept(
    *, quote_id: UUID, organisation: Organisation, actor: User | None, now: datetime, token_id: UUID | None
) -> Contract:
    # The order of locks everywhere: organisation, contract, devices by id, hold, the ledger's chain.
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    quote = Quote.objects.select_related("pool").filter(organisation=organisation).get(pk=quote_id)
    _check_acceptable(quote, now)
    asks = asks_of(quote.document)
    book = book_of_digest(quote.document["book"]["digest"])
    window = window_of_document(quote.document)
    form = Form.from_json(quote.document.get("form"))
    priced = price_asks(asks=asks, book=book, klass=quote.klass, pool=quote.pool, window=window, now=now, form=form)
    if (priced.worst, priced.expected) != (quote.worst, quote.expected):
        raise RuntimeError(f"quote {quote.id} no longer prices to what it says")
    contract_id = uuid4()
    reservation = _reserve(priced, contract_id=contract_id, organisation_id=organisation.id, now=now)
    hold_place(
        organisation_id=organisation.id,
        contract_id=contract_id,
        amount=quote.worst,
        currency=quote.currency,
        idempotency_key=f"quote:{quote.id}",
        now=now,
        shares=_project_shares(priced),
        token_id=token_id,
        expires_at=window.end + HOLD_GRACE,
    )
    contract = _contract_store(quote, contract_id, reservation.id, asks, window, actor, now)
    audit_record(
        action="quote.accept", subject=f"quote {quote.id}", actor=actor, organisation=organisation, now=now,
        detail={"contract": str(contract.id), "terms": contract.terms_digest, "net": decimal_text(contract.net)},
    )  # fmt: skip
    return contract


def _project_shares(priced: Priced) -> dict[UUID, Decimal] | None:
    """What each project may come to use, so that its own cap holds; None for a quota, from which all of them draw."""
    shares: dict[UUID, Decimal] = {}
    for line in priced.lines:
        project = project_uuid(line.ask.facts)
        if project is None:
            return None
        shares[project] = exact_sum([shares.get(project, Decimal(0)), line.worst.amount])
    return shares


def _reserve(priced: Priced, *, contract_id: UUID, organisation_id: UUID, now: datetime) -> Reservation:
    """In one window where that fits, else cut between executions; each part of a spread contract in its own time.

    Raises CapacityTaken.
    """
    first, *others = priced.demands
    take = partial(
        reservation_take, **first, contract_id=contract_id, organisation_id=organisation_id,
        klass=priced.price_class.name, now=now,
    )  # fmt: skip
    reservation = _in_few_windows(priced.windows, take)
    for demand in others:
        rest = {key: value for key, value in demand.items() if key != "pool"}
        _in_few_windows(priced.windows, partial(reservation_replace, **rest, reservation_id=reservation.id, now=now))
    return reservation


def _in_few_windows(windows: Sequence[int], take: Callable[..., T]) -> T:
    *tries, last = windows
    for most in tries:
        try:
            return take(windows_max=most)
        except CapacityTaken:
            continue
    return take(windows_max=last)


def _check_acceptable(quote: Quote, now: datetime) -> None:
    if quote.state == QuoteState.ACCEPTED:
        raise Problem(
            409, "Already accepted", f"This quote became contract {quote.contract.id}.", kind="quote-accepted",
            errors=[{"contract": str(quote.contract.id)}],
        )  # fmt: skip
    if now >= quote.valid_until:
        raise Problem(
            409,
            "Quote expired",
            f"The price was locked until {quote.valid_until:%Y-%m-%d %H:%M} UTC; ask for a new quote.",
            kind="quote-expired",
        )
    if now >= window_of_document(quote.document).end:
        raise Problem(409, "Window is over", "The quoted window has passed; ask for a new quote.", kind="quote-expired")
    if digest_of(quote.document) != quote.digest:
        raise RuntimeError(f"quote {quote.id} does not have its digest")


def _contract_store(
    quote: Quote,
    contract_id: UUID,
    reservation_id: UUID,
    asks: Sequence[Ask],
    window: Window,
    actor: User | None,
    now: datetime,
) -> Contract:
    terms = {
        "format": "takt-terms/1",
        "quote": {"id": str(quote.id), "digest": quote.digest},
        **{
            key: quote.document[key]
            for key in (
                "book",
                "currency",
                "class",
                "form",
                "pool",
                "window",
                "tariff",
                "lines",
                "net",
                "expected",
                "plan",
            )
            if key in quote.document
        },
    }
    contract = Contract.objects.create(
        id=contract_id,
        organisation_id=quote.organisation_id,
        quote=quote,
        plan_id=quote.plan_id,
        pool=quote.pool,
        klass=quote.klass,
        form=quote.form,
        terms=terms,
        terms_digest=digest_of(terms),
        reservation_id=reservation_id,
        net=quote.worst,
        currency=quote.currency,
        starts_at=window.start,
        ends_at=window.end,
        accepted_at=now,
        accepted_by=actor,
    )
    ContractLine.objects.bulk_create(
        ContractLine(
            contract=contract,
            number=number,
            program_id=UUID(ask.facts.program_id),
            program_digest=ask.facts.digest,
            executions=ask.executions,
        )
        for number, ask in enumerate(asks, 1)
        if not ask.facts.is_quota
    )
    for ask in asks:
        if ask.facts.is_quota:
            ContractQuota.objects.create(
                contract=contract, precision=ask.facts.precision, operations=ask.facts.operations
            )
    quote.state = QuoteState.ACCEPTED
    quote.save(update_fields=["state"])
    return contract


def asks_of(document: dict[str, Any]) -> list[Ask]:
    """What was asked, from a stored quote or terms."""
    return [ask_of(line) for line in document["lines"]]


def _quota_ask(quota: Quota, pool: Pool) -> Ask:
    if not 1 <= quota.tera_operations <= MOST_TERA_OPERATIONS:
        raise Problem(
            422, "Impossible volume", f"A quota has 1 to {MOST_TERA_OPERATIONS:,} tera-operations.", kind="volume"
        )
    if quota.precision not in Precision.values:
        raise Problem(422, "No such precision", f"Choose one of {', '.join(Precision.values)}.", kind="precision")
    clock = pool.processor.clock_hz if pool.processor else 0
    facts = quota_facts({
        "precision": quota.precision, "operations": quota.tera_operations * 10**12, "target": pool.target,
        "clock_hz": clock,
    })  # fmt: skip
    return Ask(facts, 1, 1)


def _ask(organisation: Organisation, line: QuoteLine) -> Ask:
    if line.program.organisation_id != organisation.id:
        raise Problem(404, "Not found", "There is no such program here, or it is not yours to see.")
    if line.executions < 1:
        raise Problem(422, "Impossible volume", "Ask for at least one execution.", kind="volume")
    if line.executions > MOST_EXECUTIONS:
        raise Problem(
            422, "Impossible volume", f"At most {MOST_EXECUTIONS:,} executions fit on one quote; split the work.",
            kind="volume",
        )  # fmt: skip
    return Ask(facts_of(line.program), line.executions, line.executions if line.expected is None else line.expected)


def window_of_document(document: dict[str, Any]) -> Window:
    return Window(
        datetime.fromisoformat(document["window"]["start"]), datetime.fromisoformat(document["window"]["end"])
    )
