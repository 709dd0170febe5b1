"""Template tags and filters for quotes, contracts and money."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from django import template
from django.utils import timezone

from apps.figures import Currency, count_format, money_exact_format, money_format, percent_format, short_format
from apps.fleet.models import PoolKind
from apps.ledger.models import Hold, HoldState
from apps.planner.models import Plan
from apps.pricing.rating import Step, decimal_text
from apps.pricing.rating.decimals import subtract
from apps.pricing.rating.shown import StepShown, step_shown
from apps.pricing.rating.shown import figure as figure_text
from apps.sales.commitments import TITLES
from apps.sales.exports import line_machine as machine_of
from apps.sales.holds import hold_context
from apps.sales.loading import loading_sentence
from apps.sales.models import Contract, ContractState
from apps.sales.revising import difference_of, revision_of
from apps.sales.services import plan_refusals
from apps.sales.snapshots import snapshot_of_line

register = template.Library()


@register.inclusion_tag("sales/_plan_hold.html", takes_context=True)
def plan_hold(context: template.Context, plan: Plan) -> dict[str, Any]:
    """Show the hold of a plan, and the button that holds the plan."""
    return {**hold_context(plan, now=timezone.now()), "csrf_token": context.get("csrf_token")}


@register.inclusion_tag("sales/_plan_refusals.html", takes_context=True)
def plan_refused(context: template.Context, plan: Plan) -> dict[str, Any]:
    """Show the caps and limits that would now prevent the acceptance of the plan's quote."""
    user = context["request"].user
    return {"refused": plan_refusals(plan=plan, actor=user, now=timezone.now())}


@register.inclusion_tag("sales/_plan_revision.html")
def plan_revision(plan: Plan) -> dict[str, Any]:
    """Show the differences between a contract and the plan for its remainder; empty for other plans."""
    contract = revision_of(plan)
    if contract is None:
        return {"contract": None}
    is_open = contract.state == ContractState.ACTIVE and timezone.now() < contract.ends_at
    return {"plan": plan, "contract": contract, "changes": difference_of(contract, plan), "is_open": is_open}


@register.filter
def figure(text: str) -> str:
    """Format a decimal string with thousands separators and every digit."""
    return figure_text(text)


@register.filter
def as_shown(step: Step | dict[str, str], currency: Currency) -> StepShown:
    """Format a price step for its table."""
    return step_shown(step, currency)


@register.filter
def instant(text: str) -> datetime:
    """Parse an instant of a document."""
    return datetime.fromisoformat(text)


@register.filter
def loading(entry: dict[str, Any]) -> str:
    """Describe the loading entry of a document in words."""
    return loading_sentence(entry)


@register.filter
def less_or_more(saving: Fraction) -> str:
    """Format a saving: 2/5 gives "40.0 % less", -1/2 gives "50.0 % more", 0 gives "same price"."""
    if not saving:
        return "same price"
    return f"{percent_format(abs(saving))} {'less' if saving > 0 else 'more'}"


@register.filter
def negated(amount: Decimal | str) -> Decimal:
    """Return the amount with the opposite sign."""
    value = Decimal(amount)
    return value.copy_negate() if value else Decimal(0)


@register.filter
def decimal_of(amount: Decimal | str) -> Decimal:
    """Convert an amount of a document to a number, for conditions in templates."""
    return Decimal(amount)


@register.filter
def signed_money(amount: Decimal | str, currency: Currency) -> str:
    """Format a difference with its sign and every digit, such as "+€ 5.632"."""
    value = Decimal(amount)
    return f"{'+' if value > 0 else ''}{money_exact_format(value, currency)}"


@register.filter
def minus_instant(end: datetime, start: datetime) -> timedelta:
    """Return the time between two instants."""
    return end - start


@register.filter
def time_kind(kind: str) -> str:
    """Return the badge of a device time: "measured" on a host, "exact" on any other pool."""
    return "measured" if kind == PoolKind.HOST else "exact"


@register.filter
def hold_left(hold: Hold) -> Decimal:
    """Return the amount that a hold still sets aside."""
    return subtract(hold.amount, hold.posted) if hold.state == HoldState.PENDING else Decimal(0)


@register.filter
def usage_rows(lines: Sequence[Any]) -> int:
    """Return the number of usage rows in the lines of a draft."""
    return sum(len(line.rows) for line in lines)


@register.filter
def fraction_money(amount: Fraction, currency: Currency) -> str:
    """Format an estimated amount, rounded to the smallest unit of the currency.

    An amount below one unit has three significant digits.
    """
    return money_format(Decimal(round(amount * 10**12)).scaleb(-12), currency)


@register.filter
def line_name(line: dict[str, Any]) -> str:
    """Return the model or quota of a quote line."""
    return snapshot_of_line(line).model


@register.filter
def line_volume(line: dict[str, Any]) -> str:
    """Return the volume of a quote line in words."""
    snapshot = snapshot_of_line(line)
    return (
        short_format(snapshot.operations, "op")
        if snapshot.is_quota
        else f"{count_format(line['executions'])} executions"
    )


@register.filter
def line_machine(line: dict[str, Any]) -> str:
    """Return the machine of a line."""
    return machine_of(line)


@register.filter
def contract_title(lines: Iterable[Any], contract: str) -> str:
    """Return the models of one contract in the lines of an invoice, such as "cls + digits"."""
    names = [
        str(line["program"]["model"]) for line in lines if str(line["contract"]) == str(contract) and line["program"]
    ]
    return " + ".join(dict.fromkeys(names)) or "Contract"


@register.simple_tag
def contract_titles(lines: Iterable[Any]) -> dict[str, str]:
    """Return the titles of the contracts in invoice lines, by contract id."""
    ids = {str(line["contract"]) for line in lines if line.get("contract")}
    return {str(row.pk): row.title for row in Contract.objects.filter(pk__in=ids).only("number", "name")}


@register.filter
def slice_title(group: str) -> str:
    """Return the heading of a grouping, such as "By model"."""
    return f"By {group}"


@register.filter
def commitment_title(kind: str) -> str:
    """Return the term of a commitment in words."""
    return TITLES[kind]


@register.filter
def short_decimal(value: Decimal) -> str:
    """Format a factor without trailing zeros."""
    return decimal_text(value)


@register.filter
def saving(share: str) -> Fraction:
    """Return the saving, which is 1 minus a stated share of the price."""
    return 1 - Fraction(share)


@register.filter
def plain(amount: Decimal, places: int) -> str:
    """Format an amount without separators, for a form field."""
    return f"{amount:.{places}f}"


@register.filter
def share_percent(share: Decimal | str | None) -> str:
    """Format a share as a percentage, such as 25 for 0.25; empty if no share is set."""
    return plain_number(Decimal(share) * 100) if share else ""


@register.filter
def plain_number(number: Decimal | None) -> str:
    """Format a number without trailing zeros, such as 500 for 500.0000; empty if the number is None."""
    return f"{number.normalize():f}" if isinstance(number, Decimal) else ""
