"""What an amendment changes: the unused rest of a contract, what it is worth, and what ending it costs."""

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
    """What of a line is not used: its price as quoted, and what is charged for ending it (0 in most classes). The last may
    be the contract's minimum: what it would lack if the rest were used, and what it lacks if it ends now."""

    model: str
    unit: str
    unused: int
    worth: Decimal
    charge: Decimal
    late: int = 0  # of what is unused, released late
    late_charge: Decimal = Decimal(0)  # a part of the charge

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

    @property
    def late_charge(self) -> Decimal:
        """What of the charge is for releasing reserved time late."""
        return exact_sum(line.late_charge for line in self.lines)

    def difference(self, net: Decimal) -> Decimal:
        """What is to come with an amendment of `net`, less what was to come without."""
        return subtract(exact_sum([net, self.charge]), self.worth)


def rest_of(contract: Contract, *, late: Mapping[str, int] | None = None) -> Rest:
    """What of a contract is not used at this moment; an ended contract has none. `late`: how much of each program's rest is
    released late (`release_of`), by its digest; without it nothing is."""
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
    """What is lacking to the contract's minimum, with the rest used and without; nothing where neither lacks any."""
    worth = minimum_lacking(book, exact_sum([used, *(line.worth for line in lines)]))
    charge = minimum_lacking(book, exact_sum([used, *(line.charge for line in lines)]))
    return [RestLine(TITLE, "contract", 1, worth, charge)] if worth or charge else []


def amendment_check(contract: Contract, *, now: datetime) -> None:
    """Raises Problem unless the contract may be amended: it is active, and its time is not over."""
    if contract.state != ContractState.ACTIVE or now >= contract.ends_at:
        raise Problem(409, "Contract is over", "This contract has ended; ask for a new quote.", kind="contract-over")


def amendment_rest(contract: Contract, takeover: Takeover, *, now: datetime) -> tuple[Rest, Release]:
    """The rest of a contract that a quote ends at `now` and takes over so far, and what of it is late."""
    released = release_of(contract, now=now, takeover=takeover)
    return rest_of(contract, late=released.late), released


def amendment_json(contract: Contract, net: Decimal, takeover: Takeover, *, now: datetime) -> dict[str, Any]:
    """The difference between a quote of `net` and the contract that it amends, as of now, for the quote's document."""
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
