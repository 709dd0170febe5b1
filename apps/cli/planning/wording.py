"""The result of `takt plan` as plain text and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

from apps import figures
from apps.cli.planning.answer import Answer, change_said, why
from apps.cli.planning.saved import Check, causes, figures_of
from apps.planner.combination_text import combination_sentences, narrowed_sentence
from apps.planner.hosting.comparison import Group
from apps.planner.solver import Candidate

SHOWN = 8  # maximum number of candidates of each kind in the text
CHANGES = 3
_CONTEXT = Context(prec=60, rounding=ROUND_HALF_EVEN)


def text(answer: Answer) -> str:
    """Return the result as text for a terminal."""
    lines = [_title(answer), *_stated(answer), "", *_choice(answer), ""]
    lines += [*_table(f"On the Pareto frontier (price, latency, {answer.measure.name}):", answer, _frontier(answer))]
    others = [one for one in answer.solution.candidates if one.feasible and not one.on_frontier]
    worse = f"Feasible, but worse than a candidate above in price, latency or {answer.measure.name}:"
    lines += [*_table(worse, answer, others[:SHOWN])]
    refused = [one for one in answer.solution.candidates if not one.feasible]
    if refused:
        lines.append("Not feasible:")
        lines += [f"  {one.title} on {one.pool}: {' '.join(one.reasons)}" for one in refused[:SHOWN]]
        lines += [f"  and {len(refused) - SHOWN:,} more (--json names all)"] if len(refused) > SHOWN else []
        lines.append("")
    for group in answer.groups:
        lines += [
            f"Other machines ({group.currency}, {answer.task.volume.items:,} items a month):",
            *_places(group, answer),
            "",
        ]
    lines += [f"Not compared: {one}" for one in answer.unused]
    return figures.plain("\n".join(lines).rstrip() + "\n")


def markdown(answer: Answer) -> str:
    """Return the result as a comment for a pull request."""
    lines = [f"### takt plan: {_title(answer)}", "", *(f"- {one.strip()}" for one in _stated(answer)), ""]
    lines += [f"**{_choice(answer)[0]}**", "", *(f"- {one.strip()}" for one in _choice(answer)[1:]), ""]
    front = _frontier(answer)
    if front:
        lines += ["| " + " | ".join(_heads(answer)[1:]) + " |", "| --- | --- | ---: | ---: | ---: | ---: | ---: |"]
        lines += ["| " + " | ".join(_cell(cell) for cell in _row(answer, one)[1:]) + " |" for one in front]
        lines.append("")
    refused = [one for one in answer.solution.candidates if not one.feasible]
    if refused:
        lines += [f"<details><summary>{len(refused):,} not feasible</summary>", ""]
        lines += [f"- {one.title} on {one.pool}: {' '.join(one.reasons)}" for one in refused]
        lines += ["", "</details>", ""]
    for group in answer.groups:
        lines += [
            f"Other machines ({group.currency}):",
            "",
            *(f"- {one.strip()}" for one in _places(group, answer)),
            "",
        ]
    return figures.plain("\n".join(lines).rstrip() + "\n")


def check_markdown(check: Check) -> str:
    """Return the result of `takt plan --check` as Markdown."""
    task = check.answer.task
    lines = [f"### takt plan --check: {_cell(task.name)}", "", f"**{_verdict(check)}**", ""]
    changed = list(causes(check))
    lines += [f"- {one}" for one in changed] or ["- nothing changed since the plan was made"]
    lines += _planned_and_now(check) if check.way is not None else []
    if check.planned is not None and check.planned.reasons:
        lines += ["", f"The planned candidate, {check.planned.title} on {check.planned.pool}:", ""]
        lines += [f"- {one}" for one in check.planned.reasons]
    best = check.answer.chosen
    if best is not None and check.keeps and best is not check.planned:
        lines += ["", f"Now cheaper: {best.title} on {best.pool} for {_price(check.answer, best)}."]
    lines += ["", *(f"- {one}" for one in _changes(check.answer))] if not check.fits else []
    return figures.plain("\n".join(lines).rstrip() + "\n")


def _planned_and_now(check: Check) -> list[str]:
    head = ["", "| | Planned | Now |", "| --- | ---: | ---: |"]
    rows = [(one.name, _cell(one.before), _cell(one.after), one.is_changed) for one in figures_of(check)]
    return [*head, *(f"| {name} | {old} | {new}{' (changed)' * changed} |" for name, old, new, changed in rows)]


def _verdict(check: Check) -> str:
    best, saved = check.answer.chosen, check.saved
    if check.keeps:
        return f"The task fits as planned: {saved.title} on {saved.pool}."
    if best is not None:
        return f"The task fits, but not as planned: {best.title} on {best.pool} for {_price(check.answer, best)}."
    return "The task does not fit: no model meets the requirements on this fleet within the budget."


def _title(answer: Answer) -> str:
    return f"{answer.task.name}: {answer.task.volume.words}"


def _stated(answer: Answer) -> list[str]:
    task = answer.task
    wanted, currency = task.requirements, task.book.currency.to_json()
    parts = []
    if wanted.accuracy is not None:
        measure = answer.measure
        parts.append(f"{measure.name} {measure.side} {measure.text(wanted.accuracy)} ({answer.evaluated})")
    if wanted.latency is not None:
        parts.append(f"one item within {figures.duration_format(wanted.latency)}")
    if wanted.duration is not None:
        parts.append(f"all items within {figures.duration_format(wanted.duration)} of device time")
    if wanted.budget is not None:
        parts.append(f"budget {figures.price_format(wanted.budget, currency)}")
    parts.append(f"done by {figures.instant_format(task.window.end)}")
    book = f"  price book {task.book.version}, class {task.klass}, fleet with {len(task.fleet.pools):,} pools"
    return [f"  {', '.join(parts)}", book]


def _choice(answer: Answer) -> list[str]:
    best = answer.chosen
    if best is None:
        return [why(answer), *(f"  {one}" for one in _changes(answer))]
    parts = [answer.made[use.key].variant.model for use in best.uses]
    how = combination_sentences(best.kind, parts, best.thresholds, best.shares)
    said = [*how, why(answer), *(narrowed_sentence(one) for one in answer.solution.narrowed)]
    return [f"Choice: {best.title} on {best.pool} for {_price(answer, best)}.", *(f"  {one}" for one in said)]


def _changes(answer: Answer) -> list[str]:
    found = [
        f"{change_said(answer, one)} Price {_amount(answer, one.price)}." for one in answer.solution.changes[:CHANGES]
    ]
    return found or [
        "Relaxing the requirements does not make any candidate feasible. The reasons state what is missing."
    ]


def _frontier(answer: Answer) -> list[Candidate]:
    return [one for one in answer.solution.candidates if one.on_frontier]


def _table(head: str, answer: Answer, candidates: Sequence[Candidate]) -> list[str]:
    if not candidates:
        return []
    heads = _heads(answer)
    rows = [heads, *(_row(answer, one) for one in candidates)]
    widths = [max(len(figures.plain(row[column])) for row in rows) for column in range(len(heads))]
    lines = []
    for row in rows:
        cells = [figures.plain(cell) for cell in row]
        left = [cell.ljust(width) for cell, width in zip(cells[:3], widths[:3], strict=True)]
        right = [cell.rjust(width) for cell, width in zip(cells[3:], widths[3:], strict=True)]
        lines.append("  " + "  ".join([*left, *right]).rstrip())
    return [head, *lines, ""]


def _heads(answer: Answer) -> tuple[str, ...]:
    return ("", "Candidate", "Pool", "Price", "Latency", answer.measure.title, "Devices", "Headroom")


def _row(answer: Answer, one: Candidate) -> tuple[str, ...]:
    needed, active = answer.fleet.needed(one), len(answer.fleet.devices(one.pool))
    latency = figures.duration_format(one.latency)
    return (
        "*" if one is answer.chosen else "",
        one.title,
        one.pool,
        _price(answer, one),
        latency if one.certainty == "exact" else f"{latency} ({one.certainty})",
        "not known" if one.accuracy is None else answer.measure.text(one.accuracy),
        "not known" if needed is None else f"{needed:,} of {active:,}",
        figures.percent_format(answer.fleet.headroom(one), 1),
    )


def _price(answer: Answer, one: Candidate) -> str:
    return "not priced" if one.total_price is None else _amount(answer, one.total_price)


def _amount(answer: Answer, amount: Decimal) -> str:
    return figures.price_format(amount, answer.task.book.currency.to_json())


def _places(group: Group, answer: Answer) -> list[str]:
    first = {one.place.key: one for one in group.break_evens if one.against is group.reference}
    lines = []
    for place in group.places:
        assert place.cost is not None
        cost = _money(place.cost.of(answer.task.volume.items), group.currency)
        said = f"  {place.key}: {cost} ({place.certainty}{', may be taken away' if place.is_interruptible else ''})"
        even = first.get(place.key)
        if even is not None and group.reference is not None:
            at = f"from {even.first:,} items a month" if even.first else f"at no volume up to {even.searched:,}"
            said += f"; not dearer than {group.reference.key} {at}"
        lines.append(" ".join([said, *place.reasons]))
    return lines


def _money(value: Fraction, currency: str) -> str:
    return figures.price_format(_CONTEXT.divide(Decimal(value.numerator), Decimal(value.denominator)), currency)


def _cell(value: str) -> str:
    return value.replace("|", "\\|").replace("\n", " ")
