"""What must hold for every contract: quote = held = preview = invoice = offline recomputation, or a named difference.

The offline recomputation is the one that `takt verify` runs, from JSON alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from apps.cli.verify import verify
from apps.pricing.rating import (
    Rating,
    both_ends,
    canonical_json,
    decimal_text,
    digest_of,
    exact_sum,
    group_key,
    merge_ratings,
    payable_of,
    rate_bought,
    shares_of,
)
from apps.pricing.rating.decimals import subtract
from tests.money.cases import Case, metered, quota_of, quoted, rest

Line = tuple[Rating, list[Rating]]


def lines_of(case: Case, ratings: Sequence[Rating]) -> list[Line]:
    """The lines of an invoice: ratings of one key together, with what each line sums."""
    groups: dict[str, list[Rating]] = {}
    for rating in ratings:
        groups.setdefault(group_key(rating), []).append(rating)
    return [(merge_ratings(case.book, members), members) for members in groups.values()]


def invoice_of(case: Case, lines: Sequence[Line]) -> dict[str, Any]:
    """The document of an invoice over these lines, in the form that the billing room writes."""
    currency = case.book.currency
    amounts = [line.amount for line, _ in lines]
    net = exact_sum(amounts)
    rounded = payable_of(net, exponent=currency.exponent)
    shares = shares_of(rounded.payable, [*amounts, Decimal(0)], exponent=currency.exponent)
    document = {
        "format": "takt-invoice/1",
        "currency": currency.to_json(),
        "lines": [
            _line(number, line, members, share)
            for number, ((line, members), share) in enumerate(zip(lines, shares, strict=False), 1)
        ],
        "net": decimal_text(net),
        "carried_in": "0",
        "carried_in_share": decimal_text(shares[-1]),
        "total": decimal_text(net),
        "correction": decimal_text(rounded.correction),
        "carried_out": decimal_text(rounded.carried),
        "payable": decimal_text(rounded.payable),
        "tax_rate": "0",
        "tax": "0",
        "due": decimal_text(rounded.payable),
    }
    return document | {"digest": digest_of(document)}


def _line(number: int, rating: Rating, members: list[Rating], share: Decimal) -> dict[str, Any]:
    counts = rating.counts.to_json()
    raw = rating.terms.form == "quota" and rating.counts.cycles == 0
    return {
        "number": number,
        "program": None if raw else {"digest": "p", "model": "m", "model_sha256": "0" * 64, **counts},
        "executions": rating.executions,
        "rating": rating.to_json(),
        "amount": decimal_text(rating.amount),
        "share": decimal_text(share),
        "usage": [{"executions": item.executions, "amount": decimal_text(item.amount)} for item in members],
    }


def named_differences(case: Case, used: Sequence[Rating], unused: Rating | None) -> dict[str, Decimal]:
    """Every reason why the invoice is not the quote, each rated for itself."""
    named = {
        "got less than was bought": exact_sum(
            subtract(item.amount, rate_bought(case.book, item).amount) for item in used
        ),
    }
    if unused is not None:
        named["unused"] = both_ends(case.book, unused)[1].amount.copy_negate()
        named["charged for unused"] = unused.amount
    return {name: amount for name, amount in named.items() if amount}


def check(case: Case) -> None:
    """All equalities of one contract of executions. Raises AssertionError."""
    quote, used, unused = quoted(case), metered(case), rest(case)
    named = named_differences(case, used, unused)
    _check_sums(case, quote.amount, used, unused, named)
    if case.full and not any(case.served) and not case.terms.measured and not _cheaper_hours(quote, used):
        assert not named, "used in full, as bought"
    _check_ends(case, quote, used, unused)


def check_quota(case: Case) -> None:
    """The same for a raw quota from which the program draws."""
    quota, draws, left = quota_of(case)
    named = named_differences(case, [], left)
    _check_sums(case, quota.amount, draws, left, named)
    assert quota.billed_operations == sum(item.billed_operations for item in draws) + (
        left.billed_operations if left else 0
    )


def _check_sums(
    case: Case, held: Decimal, used: Sequence[Rating], unused: Rating | None, named: dict[str, Decimal]
) -> None:
    ratings = [*used, *([unused] if unused is not None and unused.amount else [])]
    posted = exact_sum(item.amount for item in ratings)
    released = subtract(held, posted)
    assert released >= 0, "never more than was held"
    assert exact_sum([posted, released]) == held
    assert exact_sum([held, *named.values()]) == posted, "a difference without a name"
    assert all(item.amount > 0 for item in used), "nothing that holds a processor is free"
    assert exact_sum(step.result for step in (item.steps[-1] for item in ratings)) == posted
    lines = lines_of(case, ratings)
    invoice = invoice_of(case, lines)
    assert Decimal(invoice["net"]) == posted
    assert exact_sum(Decimal(line["share"]) for line in invoice["lines"]) == Decimal(invoice["payable"])
    # The customer's own machine has nothing but the file.
    again = json.loads(json.dumps(invoice))
    assert verify(again, models=[], books=[case.book]).checked
    assert canonical_json(again) == canonical_json(invoice_of(case, lines_of(case, ratings)))


def _check_ends(case: Case, quote: Rating, used: Sequence[Rating], unused: Rating | None) -> None:
    least, most = both_ends(case.book, quote)
    posted = exact_sum([*(item.amount for item in used), unused.amount if unused else Decimal(0)])
    assert most.amount == quote.amount, "what is held is the dearer end"
    assert posted <= most.amount
    if case.terms.form == "interval" and not case.terms.measured and not any(case.served):
        assert least.amount <= posted


def _cheaper_hours(quote: Rating, used: Sequence[Rating]) -> bool:
    """Whether leases of a class that follows the hours ran in cheaper ones than it is bound to."""
    return any(item.periods is not None for item in used) and quote.amount != exact_sum(item.amount for item in used)
