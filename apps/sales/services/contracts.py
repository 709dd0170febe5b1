"""Contracts: reserve volume for jobs, rate usage under the frozen terms, and close contracts."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q

from apps.accounts.models import Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.compilation.models import Program
from apps.figures import money_exact_format
from apps.ledger.models import Hold, HoldState
from apps.ledger.services import hold_release, usage_post
from apps.ledger.usage import Usage
from apps.pricing.rating import Counts, Rating, Terms, decimal_text, rate_lease
from apps.sales.contract_minimum import TITLE, minimum_rating
from apps.sales.ending_cost import ending_of
from apps.sales.late_cancellation import TITLE as LATE
from apps.sales.models import Contract, ContractLine, ContractState, FormName
from apps.sales.releasing import Release, Takeover, release_of, rest_rating
from apps.sales.selectors import contract_usage, terms_line
from apps.sales.services.quotas import line_lock as _line_lock
from apps.sales.services.quotas import quota_draw, quota_return
from apps.sales.services.waiting import capacity_freed
from apps.sales.snapshots import project_uuid, snapshot_of_line
from apps.timetable.services import reservation_release

# Everything that can be used is charged: the rest of the hold is the contract minimum alone.
USED_UP = Q(
    Exists(
        Hold.objects.filter(
            contract_id=OuterRef("pk"),
            state__in=[HoldState.PENDING, HoldState.POSTED],
            posted__gt=0,
            posted__gte=F("amount") - OuterRef("minimum"),
        )
    )
)


def contract_lease_rate(
    *,
    contract: Contract,
    program_digest: str,
    executions: int,
    first_instant: datetime,
    now: datetime,
    seconds: Fraction | None = None,
    measured: Counts | None = None,
    served: str = "",
) -> Rating:
    """Rate the executions of a lease under the frozen terms of its contract.

    `seconds`: the device time from one execution to the next; the default is the program's initiation interval.
    `measured`: the total counts of the lease, for terms that charge measured costs. `served`: the class that the work
    received, if lower than the class that was bought. Raises Problem if the program is not in the contract.
    """
    line = terms_line(contract, program_digest)
    snapshot = snapshot_of_line(line)
    return rate_lease(
        book=contract.book,
        counts=snapshot.counts,
        executions=executions,
        terms=replace(Terms.from_json(line["rating"]["terms"]), served=served),
        start=first_instant,
        seconds=snapshot.seconds if seconds is None else seconds,
        measured=measured,
    )


@transaction.atomic
def contract_executions_take(
    *, contract_id: UUID, program_digest: str, count: int, now: datetime, program: Program | None = None
) -> ContractLine:
    """Reserve executions of a contract for a job. Raises Problem if too few executions are left.

    `program`: required when the program uses a quota for the first time.
    """
    known = Contract.objects.get(pk=contract_id)
    if known.form == FormName.QUOTA:  # lock order: the organisation before its contracts
        Organisation.objects.select_for_update(no_key=True).get(pk=known.organisation_id)
    contract = Contract.objects.select_for_update(no_key=True).get(pk=contract_id)
    if contract.state != ContractState.ACTIVE or now >= contract.ends_at:
        raise Problem(409, "Contract is over", "This contract has ended. Make a new quote.", kind="contract-over")
    if count < 1:
        raise Problem(422, "Impossible volume", "A job needs at least one item.", kind="volume")
    if contract.form == FormName.QUOTA:
        return quota_draw(contract=contract, program_digest=program_digest, count=count, program=program, now=now)
    line = _line_lock(contract, program_digest)
    if count > line.left:
        raise Problem(
            409,
            "Volume used up",
            f"The contract has {line.left:,} of {line.executions:,} executions left, but this job needs {count:,}. Submit fewer "
            "items, or accept another quote.",
            kind="volume-used-up",
        )
    line.taken += count
    line.save(update_fields=["taken"])
    return line


@transaction.atomic
def contract_executions_return(*, contract_id: UUID, program_digest: str, count: int, now: datetime) -> None:
    """Release executions that were reserved for a job but not used."""
    contract = Contract.objects.select_for_update(no_key=True).get(pk=contract_id)
    line = _line_lock(contract, program_digest)
    if not 0 <= count <= line.taken:
        raise ValueError(f"{count} executions cannot be returned, {line.taken} are taken")
    line.taken -= count
    line.save(update_fields=["taken"])
    if contract.form == FormName.QUOTA:
        quota_return(contract=contract, line=line, count=count)


@transaction.atomic
def contract_end(
    *, contract_id: UUID, organisation: Organisation, actor: User, now: datetime, at_most: Decimal | None = None
) -> Contract:
    """End a contract early and charge its unused work.

    `at_most`: the highest charge that the customer accepts. Raises Problem(409) if the contract is over, if jobs are
    running, or if the charge is higher than `at_most`.
    """
    contract = Contract.objects.select_for_update(no_key=True).filter(organisation=organisation).get(pk=contract_id)
    if contract.state != ContractState.ACTIVE:
        raise Problem(409, "Contract is over", "This contract has already ended.", kind="contract-over")
    if in_flight(contract):
        raise Problem(
            409,
            "Jobs are running",
            "Jobs of this contract are not finished. Cancel the jobs or wait.",
            kind="jobs-open",
        )
    charge = ending_of(contract, now=now).charge
    if at_most is not None and charge > at_most:
        unit = contract.terms["currency"]
        raise Problem(
            409,
            "Ending costs more now",
            f"The page showed a cost of {money_exact_format(at_most, unit)}, but ending this contract now costs "
            f"{money_exact_format(charge, unit)}. The contract was not ended. If you accept the new cost, "
            "try again.",
            kind="ending-costs-more",
            errors=[{"at_most": decimal_text(at_most), "now": decimal_text(charge)}],
        )
    audit_record(
        action="contract.end",
        subject=f"contract {contract.id}",
        actor=actor,
        organisation=organisation,
        now=now,
        detail={"charge": decimal_text(charge)},
    )
    return contract_finish(contract, now)


@transaction.atomic
def contract_close(*, contract_id: UUID, now: datetime) -> Contract:
    """Close a contract that is used up, or that has ended and has no running jobs. Safe to repeat."""
    contract = Contract.objects.select_for_update(no_key=True).get(pk=contract_id)
    if contract.state != ContractState.ACTIVE:
        return contract
    used_up = Contract.objects.filter(USED_UP, pk=contract_id).exists()
    if used_up or (now >= contract.ends_at and not in_flight(contract)):
        return contract_finish(contract, now)
    return contract


def contracts_close_due(*, now: datetime, limit: int = 200) -> int:
    """Close every contract that is due, each in its own transaction. Return the number of contracts closed."""
    due = Contract.objects.filter(USED_UP | Q(ends_at__lte=now), state=ContractState.ACTIVE)
    due = due.exclude(organisation__sample_until__gt=F("ends_at"))
    closed = 0
    for contract_id in due.order_by("ends_at").values_list("pk", flat=True)[:limit]:
        closed += contract_close(contract_id=contract_id, now=now).state != ContractState.ACTIVE
    return closed


def contract_finish(contract: Contract, now: datetime, *, takeover: Takeover | None = None) -> Contract:
    """Close a locked contract: release its capacity, charge unused work, then release its hold.

    `takeover`: the work of the amendment.
    """
    # Lock order: devices before the ledger, as in quote_accept.
    reservation_release(reservation_id=contract.reservation_id, now=now)
    usage = contract_usage(contract)
    released = release_of(contract, now=now, usage=usage, takeover=takeover)
    for line in usage.lines:
        if line.unused:
            _unused_charge(contract, line.program_digest, line.unused, now)
    _late_charge(contract, released, now)
    _minimum_charge(contract, now)
    hold_release(contract_id=contract.id, now=now)
    contract.state = ContractState.ENDED if any(line.unused for line in usage.lines) else ContractState.USED
    contract.closed_at = now
    contract.save(update_fields=["state", "closed_at"])
    capacity_freed(contract.pool)
    return contract


def _late_charge(contract: Contract, released: Release, now: datetime) -> None:
    if not released.late or Hold.objects.get(contract_id=contract.id).state != HoldState.PENDING:
        return
    for program_digest, count in released.late.items():
        _unused_charge(contract, program_digest, count, now, late=True)


def _unused_charge(
    contract: Contract, program_digest: str, executions: int, now: datetime, *, late: bool = False
) -> None:
    # Most classes charge nothing for unused work.
    snapshot = snapshot_of_line(terms_line(contract, program_digest))
    rating = rest_rating(contract, program_digest, executions, unused=True, late=late)
    if rating.amount == 0:
        return
    kind = "late" if late else "unused"
    usage = Usage(
        organisation_id=contract.organisation_id,
        contract_id=contract.id,
        lease_id=None,
        idempotency_key=f"{kind}:{contract.id}:{program_digest}",
        operations=rating.counted_operations,
        cycles=0 if late else snapshot.cycles * executions,
        program_digest=program_digest,
        project_id=project_uuid(snapshot),
        model_name=LATE if late else snapshot.model,
        rating=rating,
        occurred_from=contract.starts_at,
        occurred_to=max(contract.starts_at, min(now, contract.ends_at)),
    )
    usage_post(usage, now=now)


def _minimum_charge(contract: Contract, now: datetime) -> None:
    hold = Hold.objects.get(contract_id=contract.id)
    terms = Terms.from_json(contract.terms["lines"][0]["rating"]["terms"])
    rating = minimum_rating(contract.book, terms, [hold.posted])
    if rating is None or rating.amount == 0 or hold.state != HoldState.PENDING:
        return
    usage = Usage(
        organisation_id=contract.organisation_id,
        contract_id=contract.id,
        lease_id=None,
        idempotency_key=f"minimum:{contract.id}",
        operations=0,
        cycles=0,
        program_digest="",
        project_id=None,
        model_name=TITLE,
        rating=rating,
        occurred_from=contract.starts_at,
        occurred_to=max(contract.starts_at, min(now, contract.ends_at)),
    )
    usage_post(usage, now=now)


def in_flight(contract: Contract) -> bool:
    """Return True if jobs have reserved executions that are not metered yet."""
    return any(line.taken > line.used for line in contract_usage(contract).lines)
