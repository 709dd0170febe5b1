"""The reasons for the differences between a contract's quoted and actual amounts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from apps.ledger.models import UsageRow
from apps.pricing.rating import PriceBookDocument, Rating, decimal_text, exact_sum, reductions
from apps.pricing.rating.decimals import subtract
from apps.pricing.selectors import books_of_digests
from apps.sales.models import Contract, ContractState
from apps.sales.releasing import rest_rating
from apps.sales.selectors import ContractUsage, LineUsage

REASONS = {
    "hours": ("cheaper hours", "{model} ran in cheaper hours than the dearest of its window, which was quoted."),
    "measured": ("measured", "{model} was measured to take less than its proven worst case, which was quoted."),
    "served": (
        "class served",
        "{model} was served in a lower class than was bought, and is billed at the price of that class.",
    ),
}


def differences_named(contract: Contract, usage: ContractUsage) -> list[dict[str, Any]]:
    """Return the differences with their reasons. The amounts add up to exactly `usage.difference`.

    Raises RuntimeError if the sum is wrong.
    """
    return differences_listed([(contract, usage)])[0]


def differences_listed(rows: Sequence[tuple[Contract, ContractUsage]]) -> list[list[dict[str, Any]]]:
    """Return the differences of several contracts, in order."""
    books = books_of_digests(contract.terms["book"]["digest"] for contract, _ in rows)
    over = [contract.pk for contract, _ in rows if contract.state != ContractState.ACTIVE]
    replaced = Contract.objects.filter(quote__amends__in=over).values_list("quote__amends", flat=True)
    amended = set(replaced) if over else set()
    return [
        _named(contract, usage, books[contract.terms["book"]["digest"]], is_amended=contract.pk in amended)
        for contract, usage in rows
    ]


def _named(
    contract: Contract, usage: ContractUsage, book: PriceBookDocument, *, is_amended: bool
) -> list[dict[str, Any]]:
    ended = _ended_word(contract, usage, is_amended=is_amended)
    is_free = not usage.late and not usage.breakage
    named = [_unused(book, contract, line, ended, is_free=is_free) for line in usage.lines if line.unused]
    minimum = subtract(usage.minimum, contract.minimum)
    beside = exact_sum([usage.breakage, minimum, usage.late])
    if exact_sum(Decimal(row["amount"]) for row in named) != subtract(usage.difference, beside):
        named += _reduced(book, contract, usage)
    if usage.breakage:
        named.append(
            {
                "name": "charged for unused",
                "program": "",
                "executions": sum(line.unused for line in usage.lines),
                "amount": decimal_text(usage.breakage),
                "sentence": "The contract's class charges a share of the price of reserved but unused executions.",
            }
        )
    if usage.late:
        named.append(
            {
                "name": "late cancellation",
                "program": "",
                "executions": 0,
                "amount": decimal_text(usage.late),
                "sentence": (
                    "Some reserved time was neither used nor released before the notice period. A share of its price is charged."
                ),
            }
        )
    if minimum:
        named.append(_minimum(contract, usage, minimum))
    told = exact_sum(Decimal(row["amount"]) for row in named)
    if told != usage.difference:
        raise RuntimeError(f"contract {contract.id}: named {told} of a difference of {usage.difference}")
    return named


def _minimum(contract: Contract, usage: ContractUsage, amount: Decimal) -> dict[str, Any]:
    if contract.state == ContractState.ACTIVE:
        sentence = "The contract minimum is settled when the contract closes."
    elif usage.minimum:
        sentence = (
            "Less was used than quoted, so usage falls further short of the contract minimum than the quote assumed."
        )
    else:
        sentence = "The contract minimum was reached, or its hold had expired before the contract closed."
    return {
        "name": "contract minimum",
        "program": "",
        "executions": 0,
        "amount": decimal_text(amount),
        "sentence": sentence,
    }


def _ended_word(contract: Contract, usage: ContractUsage, *, is_amended: bool) -> str:
    if contract.state == ContractState.ACTIVE:
        return "not used yet"
    if any(line.unused for line in usage.lines) and is_amended:
        return "ended by an amendment"
    return "unused"


def _unused(
    book: PriceBookDocument, contract: Contract, line: LineUsage, word: str, *, is_free: bool
) -> dict[str, Any]:
    worth = rest_rating(contract, line.program_digest, line.unused, unused=False, book=book).amount
    end = ": not charged." if is_free else "."
    return {
        "name": word,
        "program": line.snapshot.model,
        "executions": line.unused,
        **({"unit": line.unit} if line.unit != "executions" else {}),
        "amount": decimal_text(worth.copy_negate()),
        "sentence": f"{line.unused:,} of {line.executions:,} {line.unit} of {line.snapshot.model} {word}{end}",
    }


def _reduced(book: PriceBookDocument, contract: Contract, usage: ContractUsage) -> list[dict[str, Any]]:
    # Usage never costs more than quoted.
    if all(Fraction(line.actual) * line.executions == Fraction(line.quoted) * line.used for line in usage.lines):
        return []
    found: defaultdict[tuple[str, str], list[Decimal]] = defaultdict(list)
    executions: defaultdict[tuple[str, str], int] = defaultdict(int)
    for row in UsageRow.objects.filter(contract_id=contract.id, unused=False).order_by("created_at", "id"):
        for one in reductions(book, Rating.from_json(row.rating)):
            found[row.model_name, one.name].append(one.amount)
            executions[row.model_name, one.name] += row.quantity
    return [
        {
            "name": REASONS[reason][0],
            "program": model,
            "executions": executions[model, reason],
            "amount": decimal_text(exact_sum(amounts).copy_negate()),
            "sentence": REASONS[reason][1].format(model=model),
        }
        for (model, reason), amounts in found.items()
    ]
