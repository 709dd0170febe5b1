"""What reads quotes and contracts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
from apps.sales.asks import ask_of
from apps.sales.capacity import duration_of
from apps.sales.facts import ProgramFacts, facts_of, facts_of_line
from apps.sales.minimum import TITLE as MINIMUM
from apps.sales.models import Contract, ContractLine, ContractQuota, ContractState, FormName, Quote
from apps.sales.volumes import Form

# Nothing is used without billed operations: a row that bills none is a contract's minimum, or for releasing time late.
LACKING = ExpressionWrapper(Q(billed_operations=0, model_name=MINIMUM), output_field=BooleanField())
LATE = ExpressionWrapper(Q(billed_operations=0) & ~Q(model_name=MINIMUM), output_field=BooleanField())


@dataclass(frozen=True)
class LineUsage:
    """One line of a contract: bought, promised to jobs, used, and what that cost against what was quoted.

    `executions`, `taken` and `used` are executions of the program, or operations of any program where `unit` says so.
    """

    number: int
    facts: ProgramFacts
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
        """Executions that were bought and not used."""
        return self.executions - self.used

    @property
    def difference(self) -> Decimal:
        """Actual minus quoted."""
        return subtract(self.actual, self.quoted)


@dataclass(frozen=True)
class ContractUsage:
    """A contract, quoted against actual."""

    lines: tuple[LineUsage, ...]
    quoted: Decimal
    actual: Decimal
    hold: Hold | None
    breakage: Decimal
    minimum: Decimal = Decimal(0)  # charged, since all else came to less than the contract's minimum
    late: Decimal = Decimal(0)  # charged for what was released late

    @property
    def difference(self) -> Decimal:
        """Actual minus quoted: 0, or explained by what is unused."""
        return subtract(self.actual, self.quoted)

    @property
    def share_used(self) -> Fraction:
        """Used executions of those bought, 0 to 1."""
        bought = sum(line.executions for line in self.lines)
        return Fraction(sum(line.used for line in self.lines), bought)


def quotes_of(organisation: Organisation) -> QuerySet[Quote]:
    """The organisation's quotes, newest first."""
    return Quote.objects.filter(organisation=organisation).select_related("pool", "created_by", "contract", "amends")


def contracts_of(organisation: Organisation) -> QuerySet[Contract]:
    """The organisation's contracts, newest first."""
    return Contract.objects.filter(organisation=organisation).select_related("pool", "quote")


def contracts_open(organisation: Organisation, *, now: datetime) -> QuerySet[Contract]:
    """Contracts under which a job may be submitted now."""
    return contracts_of(organisation).filter(state=ContractState.ACTIVE, ends_at__gt=now).prefetch_related("lines")


def quote_shared(token: str, *, now: datetime) -> Quote | None:
    """The quote behind a share link that has not ended."""
    if not token.isprintable():
        return None
    found = Quote.objects.select_related("pool", "organisation").filter(share_token=token, share_until__gt=now)
    return found.first()


def terms_line(contract: Contract, program_digest: str) -> dict[str, Any]:
    """The frozen line of a program, or of its contract's quota. Raises Problem when the contract does not hold it.

    A program that draws from a quota has the quota's line with its own facts, frozen at its first job.
    """
    for line in contract.terms["lines"]:
        if facts_of_line(line).digest == program_digest:
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
    """The contract's class of service, in the book that it was sold by."""
    return contract.book.price_class(contract.klass)


def contract_allowed(contract: Contract, now: datetime, duration: Fraction | None = None) -> Limits:
    """Where unused work of a contract may be placed from `now` on, by the rule that its quote was made with.

    `duration` in seconds: of the work that is to be placed; without it, of the whole contract. Unpacks as
    (not_before, not_after, allowed).
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
    """Seconds of device time of the whole contract."""
    asks = [ask_of(line) for line in contract.terms["lines"]]
    book = contract.book
    return duration_of(asks, contract.pool, book, Form.from_json(contract.terms.get("form")))[0]


def quota_programs(contract: Contract) -> list[tuple[Program, int]]:
    """The organisation's programs that may draw from a quota, by name, and how many executions of each are left."""
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
        facts = ProgramFacts.from_json(known) if known else facts_of(program)
        found.setdefault(program.digest, (program, quota.left // draw_operations(contract, facts)))
    return list(found.values())


def draw_operations(contract: Contract, facts: ProgramFacts) -> int:
    """The operations that one execution of a program draws from a quota."""
    terms = Terms.from_json(contract.terms["lines"][0]["rating"]["terms"])
    book = contract.book
    return rate(book=book, counts=facts.counts, executions=1, terms=terms).billed_operations


def contract_usage(contract: Contract) -> ContractUsage:
    """What was bought, taken and used, and quoted against actual, line by line."""
    return contract_usages([contract])[contract.id]


def contract_usages(contracts: Sequence[Contract]) -> dict[UUID, ContractUsage]:
    """The same for many contracts, by id, in four queries."""
    ids = [contract.id for contract in contracts]
    rows_used = UsageSum.objects.filter(contract_id__in=ids).annotate(lacking=LACKING, late=LATE)
    metered = rows_used.values("contract_id", "program_digest", "unused", "lacking", "late")
    used: dict[tuple[UUID, str], tuple[int, Decimal]] = {}
    breakage: dict[UUID, list[Decimal]] = {}
    minimums: dict[UUID, Decimal] = {}
    lates: dict[UUID, list[Decimal]] = {}
    quotas = {row.contract_id: row for row in ContractQuota.objects.filter(contract__in=ids)}
    for row in metered.annotate(q=Sum("quantity"), b=Sum("billed_operations"), a=Sum("amount")).order_by():
        if row["lacking"]:
            minimums[row["contract_id"]] = row["a"]
        elif row["late"]:
            lates.setdefault(row["contract_id"], []).append(row["a"])
        elif row["unused"]:
            breakage.setdefault(row["contract_id"], []).append(row["a"])
        elif row["contract_id"] in quotas:
            count, amount = used.get((row["contract_id"], ""), (0, Decimal(0)))
            used[row["contract_id"], ""] = (count + int(row["b"]), exact_sum([amount, row["a"]]))
        else:
            used[row["contract_id"], row["program_digest"]] = (int(row["q"]), row["a"])
    holds = {hold.contract_id: hold for hold in Hold.objects.filter(contract_id__in=ids)}
    rows = ContractLine.objects.filter(contract__in=ids).values_list("contract_id", "program_digest", "taken")
    taken = {(contract, digest): count for contract, digest, count in rows}
    taken |= {(contract, ""): int(quota.taken) for contract, quota in quotas.items()}
    found: dict[UUID, ContractUsage] = {}
    for contract in contracts:
        lines = tuple(_line_usages(contract, used, taken))
        extra = exact_sum(breakage.get(contract.id, []))
        minimum, late = minimums.get(contract.id, Decimal(0)), exact_sum(lates.get(contract.id, []))
        actual = exact_sum([*(line.actual for line in lines), extra, minimum, late])
        found[contract.id] = ContractUsage(lines, contract.net, actual, holds.get(contract.id), extra, minimum, late)
    return found


def _line_usages(
    contract: Contract, used: dict[tuple[UUID, str], tuple[int, Decimal]], taken: dict[tuple[UUID, str], int]
) -> Iterator[LineUsage]:
    for line in contract.terms["lines"]:
        facts = facts_of_line(line)
        key = (contract.id, facts.digest)
        quantity, amount = used.get(key, (0, Decimal(0)))
        yield LineUsage(
            number=line["number"],
            facts=facts,
            program_digest=key[1],
            executions=facts.operations if facts.is_quota else line["executions"],
            taken=taken.get(key, 0),
            used=quantity,
            quoted=Decimal(line["amount"]),
            actual=amount,
            quoted_rating=line["rating"],
            unit="operations" if facts.is_quota else "executions",
        )


def version_keep_reason(version: ModelVersion) -> str | None:
    """Why a model file must stay: an active contract runs on a program made from it. None when nothing speaks against."""
    contract = Contract.objects.filter(state=ContractState.ACTIVE, lines__program__model_version=version).first()
    if contract is None:
        return None
    return (
        f"Contract {contract.title} runs on it until {contract.ends_at:%Y-%m-%d %H:%M} UTC; end the contract first, "
        "or delete the file afterwards."
    )
