"""What an amendment changes: the unused rest of a contract, what it is worth, and what ending it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from apps.accounts.problems import Problem
from apps.pricing.rating import PriceBookDocument, Rating, Terms, decimal_text, exact_sum, rate, rate_quota
from apps.pricing.rating.decimals import subtract
from apps.pricing.selectors import book_of_digest
from apps.sales.facts import facts_of_line
from apps.sales.minimum import TITLE, minimum_lacking
from apps.sales.models import Contract, ContractState
from apps.sales.selectors import contract_usage, terms_line


@dataclass(frozen=True)
class RestLine:
    """What of a line is not used: its price as quoted, and what is charged for ending it (0 in most classes). The last may
    be the contract's minimum: what it would lack if the rest were used, and what it lacks if it ends now."""

    model: str
    unit: str
    unused: int
    worth: Decimal
    charge: Decimal

    def to_json(self) -> dict[str, Any]:
        return {
            "model": self.model, "unit": self.unit, "unused": self.unused, "worth": decimal_text(self.worth),
            "charge": decimal_text(self.charge),
        }  # fmt: skip


@dataclass(frozen=True)
class Rest:
    """The unused rest of a contract."""

    quoted: Decimal
    used: Decimal
    lines: tuple[RestLine, ...]

    @property
    def worth(self) -> Decimal:
        """What the rest would cost if it were used: so much of the hold is given back."""
        return exact_sum(line.worth for line in self.lines)

    @property
    def charge(self) -> Decimal:
        """What is charged for ending it."""
        return exact_sum(line.charge for line in self.lines)

    def difference(self, net: Decimal) -> Decimal:
        """What is to come with an amendment of `net`, less what was to come without."""
        return subtract(exact_sum([net, self.charge]), self.worth)


def rest_of(contract: Contract) -> Rest:
    """What of a contract is not used at this moment; an ended contract has none."""
    usage = contract_usage(contract)
    if contract.state != ContractState.ACTIVE:
        return Rest(contract.net, usage.actual, ())
    book = book_of_digest(contract.terms["book"]["digest"])
    lines = [
        RestLine(
            line.facts.model,
            line.unit,
            line.unused,
            rest_rating(book, contract, line.program_digest, line.unused, unused=False).amount,
            rest_rating(book, contract, line.program_digest, line.unused, unused=True).amount,
        )
        for line in usage.lines
        if line.unused
    ]
    return Rest(contract.net, usage.actual, (*lines, *_minimum(book, usage.actual, lines)))


def _minimum(book: PriceBookDocument, used: Decimal, lines: Sequence[RestLine]) -> list[RestLine]:
    """What is lacking to the contract's minimum, with the rest used and without; nothing where neither lacks any."""
    worth = minimum_lacking(book, exact_sum([used, *(line.worth for line in lines)]))
    charge = minimum_lacking(book, exact_sum([used, *(line.charge for line in lines)]))
    return [RestLine(TITLE, "contract", 1, worth, charge)] if worth or charge else []


def rest_rating(
    book: PriceBookDocument, contract: Contract, program_digest: str, count: int, *, unused: bool
) -> Rating:
    """The price of a line's rest by the contract's book and frozen terms, if it were used or as what was reserved and not
    used.

    `count` are executions, or operations of a quota.
    """
    line = terms_line(contract, program_digest)
    facts = facts_of_line(line)
    terms = Terms.from_json(line["rating"]["terms"])
    if facts.is_quota:
        return rate_quota(book=book, operations=count, terms=terms, unused=unused)
    return rate(book=book, counts=facts.counts, executions=count, terms=terms, unused=unused)


def amendment_check(contract: Contract, *, now: datetime) -> None:
    """Raises Problem unless the contract may be amended: it is active, and its time is not over."""
    if contract.state != ContractState.ACTIVE or now >= contract.ends_at:
        raise Problem(409, "Contract is over", "This contract has ended; ask for a new quote.", kind="contract-over")


def amendment_json(contract: Contract, net: Decimal) -> dict[str, Any]:
    """The difference between a quote of `net` and the contract that it amends, as of now, for the quote's document."""
    rest = rest_of(contract)
    return {
        "contract": str(contract.id),
        "terms_digest": contract.terms_digest,
        "quoted": decimal_text(rest.quoted),
        "used": decimal_text(rest.used),
        "lines": [line.to_json() for line in rest.lines],
        "rest": decimal_text(rest.worth),
        "charge": decimal_text(rest.charge),
        "net": decimal_text(net),
        "difference": decimal_text(rest.difference(net)),
    }
