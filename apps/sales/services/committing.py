"""Enter commitments: a minimum monthly spend in return for a price factor."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from django.db import transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from apps.accounts.models import Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.pricing.amounts import amount_check
from apps.pricing.rating import PriceBookDocument, RatingError, commitment_factor, decimal_text
from apps.pricing.selectors import book_in_force, document_of
from apps.sales.commitments import MONTHS, commitment_at, commitment_ends, whole_second
from apps.sales.models import Commitment

MOST_MINIMUM = Decimal(10**9)


@transaction.atomic
def commitment_enter(
    *, organisation: Organisation, kind: str, minimum: Decimal, actor: User | None, now: datetime
) -> Commitment:
    """Enter a commitment to spend at least `minimum`, without tax, in every month from now on.

    `kind`: the length of the commitment. Raises Problem if the commitment is invalid, or if another commitment is in
    force.
    """
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    book = document_of(book_in_force(at=now))
    factor = _factor(book, kind)
    _check_minimum(book, minimum)
    known = commitment_at(organisation, at=now, currency=book.currency.code)
    if known is not None:
        raise Problem(
            409,
            "A commitment is in force",
            f"The current commitment ends at {known.ends_at:%Y-%m-%d %H:%M} UTC. The next commitment can begin at that time.",
            kind="commitment-in-force",
        )
    start = whole_second(now)
    commitment = Commitment.objects.create(
        organisation=organisation,
        kind=kind,
        period=DateTimeTZRange(start, commitment_ends(kind, start), "[)"),
        minimum=minimum,
        currency=book.currency.code,
        factor=factor,
        book_digest=book.digest,
        accepted_at=now,
        accepted_by=actor,
    )
    audit_record(
        action="commitment.enter",
        subject=f"commitment {commitment.id}",
        actor=actor,
        organisation=organisation,
        now=now,
        detail={"kind": kind, "minimum": decimal_text(minimum), "factor": decimal_text(factor)},
    )
    return commitment


def _factor(book: PriceBookDocument, kind: str) -> Decimal:
    try:
        if kind not in MONTHS:
            raise RatingError(f"There is no commitment {kind[:40]!r}; choose one of {', '.join(MONTHS)}.")
        factor = commitment_factor(book, kind)
    except RatingError as error:
        raise Problem(422, "No such commitment", str(error), kind="commitment") from error
    if factor == 1:
        raise Problem(422, "No discount", "The price book gives no discount for this commitment.", kind="commitment")
    return factor


def _check_minimum(book: PriceBookDocument, minimum: Decimal) -> None:
    amount_check(minimum, currency=book.currency)
    unit = Decimal(1).scaleb(-book.currency.exponent)
    if not unit <= minimum <= MOST_MINIMUM:
        raise Problem(
            422,
            "Impossible amount",
            f"Enter an amount from {unit} to {MOST_MINIMUM:,} {book.currency.code} a month.",
            kind="commitment-minimum",
        )
