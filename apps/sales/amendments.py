"""Amendments: the unused remainder of a contract, its value, and the cost of ending the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from apps.accounts.problems import Problem
from apps.pricing.rating import PriceBookDocument, decimal_text, exact_sum
from apps.pricing.rating.decimals import subtract
from apps.sales.contract_minimum import TITLE, minimum_lacking
from apps.sales.models import Contract, ContractState
from apps.sales.releasing import Release, Takeover, release_of, rest_rating
from apps.sales.selectors import LineUsage, contract_usage


@dataclass(frozen=True)
class RestLine:
    """The unused part of a line.

    `worth` is the quoted price. `charge` is the charge for releasing this part. For the contract minimum, `worth` is
    the shortfall if the remainder is used, and `charge` is the shortfall if the contract ends now.
    """

    model: str
    unit: str
    unused: int
    worth: Decimal
    charge: Decimal
    late: int = 0  # the part of `unused` that is released late
    late_charge: Decimal = Decimal(0)  # included in `charge`

    def to_json(self) -> dict[str, Any]:
        late = {"late": self.late, "late_charge": decimal_text(self.late_charge)} if self.late else {}
        return {
            "model": self.model,
            "unit": self.unit,
            "unused": self.unused,
            "worth": decimal_text(self.worth),
            "charge": decimal_text(self.charge),
            **late,
        }


@dataclass(frozen=True)
class Rest:
    """The unused remainder of a contract."""

    quoted: Decimal
    used: Decimal
    lines: tuple[RestLine, ...]

    @property
    def worth(self) -> Decimal:
        return exact_sum(line.worth for line in self.lines)

    @property
    def charge(self) -> Decimal:
        return exact_sum(line.charge for line in self.lines)

    @property
    def late_charge(self) -> Decimal:
        return exact_sum(line.late_charge for line in self.lines)

    def difference(self, net: Decimal) -> Decimal:
        """Return the change in total cost if the amendment costs `net`."""
        return subtract(exact_sum([net, self.charge]), self.worth)


def rest_of(contract: Contract, *, late: Mapping[str, int] | None = None) -> Rest:
    """Return the unused remainder of a contract; empty if the contract has ended.

    `late`: the number of unused executions released late, by program digest.
    """
    usage = contract_usage(contract)
    if contract.state != ContractState.ACTIVE:
        return Rest(contract.net, usage.actual, ())
    book = contract.book
    lines = [
        _rest_line(book, contract, line, (late or {}).get(line.program_digest, 0))
        for line in usage.lines
        if line.unused
    ]
    return Rest(contract.net, usage.actual, (*lines, *_minimum(book, usage.actual, lines)))


def _rest_line(book: PriceBookDocument, contract: Contract, line: LineUsage, late: int) -> RestLine:
    digest, unused = line.program_digest, line.unused
    worth = rest_rating(contract, digest, unused, unused=False, book=book).amount
    charge = rest_rating(contract, digest, unused, unused=True, book=book).amount
    more = rest_rating(contract, digest, late, unused=True, late=True, book=book).amount if late else Decimal(0)
    return RestLine(line.snapshot.model, line.unit, unused, worth, exact_sum([charge, more]), late, more)


def _minimum(book: PriceBookDocument, used: Decimal, lines: Sequence[RestLine]) -> list[RestLine]:
    worth = minimum_lacking(book, exact_sum([used, *(line.worth for line in lines)]))
    charge = minimum_lacking(book, exact_sum([used, *(line.charge for line in lines)]))
    return [RestLine(TITLE, "contract", 1, worth, charge)] if worth or charge else []


def amendment_check(contract: Contract, *, now: datetime) -> None:
    """Raise Problem(409) if the contract is not active or has reached its end."""
    if contract.state != ContractState.ACTIVE or now >= contract.ends_at:
        raise Problem(409, "Contract is over", "This contract has ended. Make a new quote.", kind="contract-over")


def amendment_rest(contract: Contract, takeover: Takeover, *, now: datetime) -> tuple[Rest, Release]:
    """Return the unused remainder of the contract, and the executions that are released late."""
    released = release_of(contract, now=now, takeover=takeover)
    return rest_of(contract, late=released.late), released


def amendment_json(contract: Contract, net: Decimal, takeover: Takeover, *, now: datetime) -> dict[str, Any]:
    """Return the entry `amends` of a quote's document."""
    rest, released = amendment_rest(contract, takeover, now=now)
    return {
        "contract": str(contract.id),
        "terms_digest": contract.terms_digest,
        "quoted": decimal_text(rest.quoted),
        "used": decimal_text(rest.used),
        "lines": [line.to_json() for line in rest.lines],
        "rest": decimal_text(rest.worth),
        "charge": decimal_text(rest.charge),
        **({"late_charge": decimal_text(rest.late_charge)} if rest.late_charge else {}),
        "net": decimal_text(net),
        "difference": decimal_text(rest.difference(net)),
        **({"carried": dict(released.carried)} if released.carried else {}),
    }
