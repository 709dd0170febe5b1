"""Queries for quotes and contracts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet, Sum

from apps.accounts.models import Organisation
from apps.accounts.problems import Problem
from apps.compilation.models import Program
from apps.ledger.models import Hold, UsageSum
from apps.pricing.limits import Limits, Window, limits_of
from apps.pricing.rating import PriceClass, Terms, exact_sum, rate
from apps.pricing.rating.decimals import subtract
from apps.registry.models import ModelVersion
from apps.sales.capacity import duration_of
from apps.sales.contract_minimum import TITLE as MINIMUM
from apps.sales.models import Contract, ContractLine, ContractQuota, ContractState, FormName, Quote
from apps.sales.request_lines import request_line_of
from apps.sales.snapshots import ProgramSnapshot, snapshot_of, snapshot_of_line
from apps.sales.volumes import Form

# A row without billed operations is no usage: it is a contract minimum or a late cancellation.
LACKING = ExpressionWrapper(Q(billed_operations=0, model_name=MINIMUM), output_field=BooleanField())
LATE = ExpressionWrapper(Q(billed_operations=0) & ~Q(model_name=MINIMUM), output_field=BooleanField())


@dataclass(frozen=True)
class LineUsage:
    """One line of a contract: the volumes bought, reserved and used, with quoted and actual amounts."""

    number: int
    snapshot: ProgramSnapshot
    program_digest: str
    executions: int
    taken: int
    used: int
    quoted: Decimal
    actual: Decimal
    quoted_rating: dict[str, Any]
    unit: str = "executions"

    @property
    def unused(self) -> int:
        return self.executions - self.used

    @property
    def difference(self) -> Decimal:
        return subtract(self.actual, self.quoted)


@dataclass(frozen=True)
class ContractUsage:
    """The usage of a contract, with quoted and actual amounts."""

    lines: tuple[LineUsage, ...]
    quoted: Decimal
    actual: Decimal
    hold: Hold | None
    breakage: Decimal
    minimum: Decimal = Decimal(0)  # charged for the shortfall against the contract minimum
    late: Decimal = Decimal(0)  # charged for late cancellation

    @property
    def difference(self) -> Decimal:
        return subtract(self.actual, self.quoted)

    @property
    def share_used(self) -> Fraction:
        bought = sum(line.executions for line in self.lines)
        return Fraction(sum(line.used for line in self.lines), bought)


def quotes_of(organisation: Organisation) -> QuerySet[Quote]:
    """Return the quotes of an organisation, newest first."""
    return Quote.objects.filter(organisation=organisation).select_related("pool", "created_by", "contract", "amends")


def contracts_of(organisation: Organisation) -> QuerySet[Contract]:
    """Return the contracts of an organisation, newest first."""
    return Contract.objects.filter(organisation=organisation).select_related("pool", "quote")


def contracts_open(organisation: Organisation, *, now: datetime) -> QuerySet[Contract]:
    """Return the contracts under which a job can be submitted at `now`."""
    return contracts_of(organisation).filter(state=ContractState.ACTIVE, ends_at__gt=now).prefetch_related("lines")


def quote_shared(token: str, *, now: datetime) -> Quote | None:
    """Return the quote with this share token; None if there is no such quote, or if the link no longer works."""
    if not token.isprintable():
        return None
    found = Quote.objects.select_related("pool", "organisation").filter(share_token=token, share_until__gt=now)
    return found.first()


def terms_line(contract: Contract, program_digest: str) -> dict[str, Any]:
    """Return the frozen line of a program in the contract's terms.

    Raises Problem if the program is not in the contract.
    """
    for line in contract.terms["lines"]:
        if snapshot_of_line(line).digest == program_digest:
            found: dict[str, Any] = line
            return found
    if contract.form == FormName.QUOTA:
        drawn = contract.lines.filter(program_digest=program_digest).first()
        if drawn is not None:
            return {**contract.terms["lines"][0], "program": drawn.facts}
    raise Problem(
        409,
        "Not in the contract",
        f"Program {program_digest[:12]} is not part of this contract.",
        kind="not-in-contract",
    )


def contract_class(contract: Contract) -> PriceClass:
    """Return the class of service of a contract, as defined in the contract's price book."""
    return contract.book.price_class(contract.klass)


def contract_allowed(contract: Contract, now: datetime, duration: Fraction | None = None) -> Limits:
    """Return the limits within which unused work may be placed from `now` on.

    `duration`: the seconds of the work; the default is the device time of the whole contract.
    """
    book = contract.book
    return limits_of(
        book=book,
        price_class=book.price_class(contract.klass),
        window=Window(contract.starts_at, contract.ends_at),
        duration=contract_duration(contract) if duration is None else duration,
        now=now,
    )


def contract_duration(contract: Contract) -> Fraction:
    """Return the device time of the whole contract in seconds."""
    request_lines = [request_line_of(line) for line in contract.terms["lines"]]
    book = contract.book
    return duration_of(request_lines, contract.pool, book, Form.from_json(contract.terms.get("form")))[0]


def quota_programs(contract: Contract) -> list[tuple[Program, int]]:
    """Return the programs that can draw from a quota, with the number of executions left, ordered by name."""
    quota, processor = contract.quota, contract.pool.processor
    rows = Program.objects.filter(
        organisation_id=contract.organisation_id,
        precision=quota.precision,
        target_digest=processor.digest if processor else "",
    )
    frozen = {line.program_digest: line.facts for line in contract.lines.all()}
    found: dict[str, tuple[Program, int]] = {}
    related = rows.select_related("model_version__model__project")
    for program in related.order_by("model_version__model__name", "-created_at"):
        known = frozen.get(program.digest)
        snapshot = ProgramSnapshot.from_json(known) if known else snapshot_of(program)
        found.setdefault(program.digest, (program, quota.left // draw_operations(contract, snapshot)))
    return list(found.values())


def draw_operations(contract: Contract, snapshot: ProgramSnapshot) -> int:
    """Return the number of operations that one execution of a program draws from a quota."""
    terms = Terms.from_json(contract.terms["lines"][0]["rating"]["terms"])
    book = contract.book
    return rate(book=book, counts=snapshot.counts, executions=1, terms=terms).billed_operations


def contract_usage(contract: Contract) -> ContractUsage:
    """Return the usage of a contract."""
    return contract_usages([contract])[contract.id]


def contract_usages(contracts: Sequence[Contract]) -> dict[UUID, ContractUsage]:
    """Return the usage of each contract, by contract id."""
    ids = [contract.id for contract in contracts]
    quotas = {row.contract_id: row for row in ContractQuota.objects.filter(contract__in=ids)}
    sums = _usage_sums(ids, quotas=set(quotas))
    holds = {hold.contract_id: hold for hold in Hold.objects.filter(contract_id__in=ids)}
    rows = ContractLine.objects.filter(contract__in=ids).values_list("contract_id", "program_digest", "taken")
    taken = {(contract, digest): count for contract, digest, count in rows}
    taken |= {(contract, ""): int(quota.taken) for contract, quota in quotas.items()}
    found: dict[UUID, ContractUsage] = {}
    for contract in contracts:
        key, lines = contract.id, tuple(_line_usages(contract, sums.used, taken))
        extra, late = exact_sum(sums.breakage.get(key, [])), exact_sum(sums.late.get(key, []))
        minimum = sums.minimum.get(key, Decimal(0))
        actual = exact_sum([*(line.actual for line in lines), extra, minimum, late])
        found[key] = ContractUsage(lines, contract.net, actual, holds.get(key), extra, minimum, late)
    return found


@dataclass
class _UsageSums:
    # `used` maps (contract, program) to (quantity, amount); the program of a quota is an empty text.

    used: dict[tuple[UUID, str], tuple[int, Decimal]] = field(default_factory=dict)
    breakage: dict[UUID, list[Decimal]] = field(default_factory=dict)
    minimum: dict[UUID, Decimal] = field(default_factory=dict)
    late: dict[UUID, list[Decimal]] = field(default_factory=dict)


def _usage_sums(ids: Sequence[UUID], *, quotas: set[UUID]) -> _UsageSums:
    rows = UsageSum.objects.filter(contract_id__in=ids).annotate(lacking=LACKING, is_late=LATE)
    groups = rows.values("contract_id", "program_digest", "unused", "lacking", "is_late")
    sums = _UsageSums()
    for row in groups.annotate(q=Sum("quantity"), b=Sum("billed_operations"), a=Sum("amount")).order_by():
        contract, amount = row["contract_id"], row["a"]
        if row["lacking"]:
            sums.minimum[contract] = amount
        elif row["is_late"]:
            sums.late.setdefault(contract, []).append(amount)
        elif row["unused"]:
            sums.breakage.setdefault(contract, []).append(amount)
        elif contract in quotas:
            count, before = sums.used.get((contract, ""), (0, Decimal(0)))
            sums.used[contract, ""] = (count + int(row["b"]), exact_sum([before, amount]))
        else:
            sums.used[contract, row["program_digest"]] = (int(row["q"]), amount)
    return sums


def _line_usages(
    contract: Contract, used: dict[tuple[UUID, str], tuple[int, Decimal]], taken: dict[tuple[UUID, str], int]
) -> Iterator[LineUsage]:
    for line in contract.terms["lines"]:
        snapshot = snapshot_of_line(line)
        key = (contract.id, snapshot.digest)
        quantity, amount = used.get(key, (0, Decimal(0)))
        yield LineUsage(
            number=line["number"],
            snapshot=snapshot,
            program_digest=key[1],
            executions=snapshot.operations if snapshot.is_quota else line["executions"],
            taken=taken.get(key, 0),
            used=quantity,
            quoted=Decimal(line["amount"]),
            actual=amount,
            quoted_rating=line["rating"],
            unit="operations" if snapshot.is_quota else "executions",
        )


def version_keep_reason(version: ModelVersion) -> str | None:
    """Return the reason why a model file must be kept; None if the file may be deleted."""
    contract = Contract.objects.filter(state=ContractState.ACTIVE, lines__program__model_version=version).first()
    if contract is None:
        return None
    return (
        f"Contract {contract.title} uses this file until {contract.ends_at:%Y-%m-%d %H:%M} UTC. End the contract "
        "first, or delete the file later."
    )
