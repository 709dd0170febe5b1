"""The assumptions behind the price of a quote, as sentences."""

from __future__ import annotations

from apps.pricing.rating import amount_text, decimal_text
from apps.sales.late_cancellation import late_sentence
from apps.sales.loading import loading_assumptions
from apps.sales.models import FormName
from apps.sales.priced import Priced
from apps.sales.request_lines import QuoteRequestLine


def assumptions_of(priced: Priced) -> list[str]:
    """Return the assumptions behind the price, as sentences."""
    sentences = [
        f"{priced.price_class.title}: {priced.price_class.promise}",
        "Operations and cycles are those of the compiled program; running it does not change them.",
        "Tax is not part of the net amount.",
        *loading_assumptions([line.request_line for line in priced.lines], priced.pool),
    ]
    for line in priced.lines:
        sentences += _line_assumptions(priced, line.request_line)
    if priced.price_class.late is not None:
        sentences.append(late_sentence(priced.price_class.late, unused=priced.price_class.unused))
    return [*sentences, *_contract_assumptions(priced)]


def _line_assumptions(priced: Priced, request_line: QuoteRequestLine) -> list[str]:
    snapshot, form = request_line.snapshot, _form_sentence(priced, request_line)
    sentences = [form] if form else []
    if not snapshot.exact:
        charged = (
            "the proven upper bound is set aside, and the measured cost is charged, never more than the bound"
            if request_line.measured
            else "the proven upper bound is priced"
        )
        sentences.append(f"{snapshot.model}: its cost depends on the data ({snapshot.reason}); {charged}.")
    if request_line.expected != request_line.executions:
        sentences.append(
            f"{snapshot.model}: {request_line.expected:,} of {request_line.executions:,} executions are expected. The worst "
            f"case is set aside; unused executions {_unused_sentence(priced, request_line)}."
        )
    return sentences


def _contract_assumptions(priced: Priced) -> list[str]:
    sentences, agreed = [], priced.lines[0].request_line
    if priced.book.contract_minimum:
        unit = priced.book.currency
        least = amount_text(priced.book.contract_minimum, exponent=unit.exponent)
        sentences.append(f"A contract costs at least {least} {unit.code}; any shortfall is charged when it closes.")
    if agreed.commitment_factor is not None:
        sentences.append(
            f"Bought under a commitment ({agreed.commitment}): its factor of {decimal_text(agreed.commitment_factor)} was "
            "agreed when the commitment was entered."
        )
    if priced.pool.is_host:
        sentences.append(
            "The latency on this pool is measured, not proven; the price depends on the compiled counts alone."
        )
    return sentences


def _unused_sentence(priced: Priced, request_line: QuoteRequestLine) -> str:
    if priced.price_class.late is None or request_line.planned:
        return "are not charged"
    return "are charged only as late cancellation"


def _form_sentence(priced: Priced, request_line: QuoteRequestLine) -> str:
    schedule = request_line.schedule
    snapshot = request_line.snapshot
    if snapshot.is_quota:
        return (
            f"Any program of the organisation in {snapshot.precision} on {priced.pool.processor_class} can use the "
            f"{snapshot.operations:,} operations of this quota. The longest time that these operations can take is reserved."
        )
    if schedule is None:
        return ""
    if priced.form.name == FormName.SPREAD:
        return (
            f"{schedule.each:,} executions run in each of {schedule.intervals:,} parts of {schedule.every} seconds, counted "
            "from the start of the period."
        )
    return (
        f"Exactly {schedule.each:,} executions run in each of {schedule.intervals:,} intervals of {schedule.every} seconds; "
        f"unused executions cost {priced.price_class.unused} x the list price."
    )
