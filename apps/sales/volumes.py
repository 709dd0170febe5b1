"""The forms in which a volume is sold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Any

from apps.accounts.problems import Problem
from apps.pricing.limits import Window
from apps.pricing.rating import PriceBookDocument, RatingError, Schedule, decimal_text
from apps.sales.models import FormName
from apps.sales.request_lines import QuoteRequestLine

MOST_TERA_OPERATIONS = 5_000_000
SHORTEST_PART = timedelta(hours=1)
MOST_PARTS = 62


@dataclass(frozen=True)
class Form:
    """The form in which a volume is sold.

    `every`: the length in seconds of a part (spread) or of an interval.
    """

    name: str = FormName.EXECUTION
    every: Fraction | None = None

    def to_json(self) -> dict[str, Any]:
        return {"name": str(self.name), **({} if self.every is None else {"every": str(self.every)})}

    @staticmethod
    def from_json(document: dict[str, Any] | None) -> Form:
        """Read the form from a document. A document without a form is priced per execution."""
        if document is None:
            return Form()
        every = document.get("every")
        return Form(document["name"], None if every is None else Fraction(every))


PER_EXECUTION = Form()


def forms_offered(book: PriceBookDocument) -> list[dict[str, Any]]:
    """Return the forms in which programs are sold, with their meanings and prices."""
    guaranteed = [one for one in book.classes.values() if one.unused and one.offered]
    interval = next((one for one in book.classes.values() if one.unused), None)
    costs = (
        f"{decimal_text(interval.surcharge)} x the list price; unused executions cost {decimal_text(interval.unused)} x "
        "the list price."
        if interval
        else "The price book has no price for this form."
    )
    is_late_priced = any(one.late for one in book.classes.values())
    used = "You pay for what you use" + (
        ", and a share of the price of time that you release late or do not use." if is_late_priced else "."
    )
    return [
        {
            "name": FormName.EXECUTION,
            "title": "Per execution",
            "offered": True,
            "means": "The executions run at any time in the period.",
            "costs": used,
        },
        {
            "name": FormName.SPREAD,
            "title": "Spread over a period",
            "offered": True,
            "means": "The executions run in equal parts, each reserved in its own hour, day or week.",
            "costs": used,
        },
        {
            "name": FormName.INTERVAL,
            "title": "Granular interval",
            "offered": bool(guaranteed),
            "means": "An exact number of executions runs in every interval, for example 500 every 1 ms.",
            "costs": f"Class {interval.title if interval else 'guaranteed'}: {costs}",
        },
    ]


def form_check(form: Form, request_lines: Sequence[QuoteRequestLine]) -> None:
    """Raise Problem if the form does not fit the request lines."""
    if form.name not in FormName.values:
        raise _refusal(f"There is no contract form {form.name!r}; choose one of {', '.join(FormName.values)}.")
    needs_length = form.name in {FormName.SPREAD, FormName.INTERVAL}
    _length_check(form, needs_length=needs_length)
    if needs_length and len(request_lines) != 1:
        raise _refusal(f"{form.name.capitalize()} contracts can have only one program. Make a quote for each program.")
    if any(request_line.snapshot.is_quota != (form.name == FormName.QUOTA) for request_line in request_lines):
        raise _refusal("Enter tera-operations for a quota, and executions of a program for every other form.")
    if form.name == FormName.SPREAD and form.every is not None and form.every < Fraction(SHORTEST_PART.seconds):
        raise _refusal("The parts of a spread contract must be at least one hour long.")


def _length_check(form: Form, *, needs_length: bool) -> None:
    if form.every is None and needs_length:
        raise _refusal(f"State the length of one part or interval for the form {form.name}.")
    if form.every is not None and not needs_length:
        raise _refusal(
            "Only spread and interval contracts are divided into parts, so leave the length of a part empty."
        )
    if form.every is not None and form.every <= 0:
        raise _refusal("The length of a part or interval must be above 0 seconds.")


def schedule_of(form: Form, request_line: QuoteRequestLine, window: Window) -> Schedule | None:
    """Return the schedule of a line; None if the form has no schedule.

    Raises Problem if the schedule does not fit in the window.
    """
    if form.every is None:
        return None
    if request_line.schedule is not None:  # a stored schedule was agreed and never changes
        return request_line.schedule
    try:
        schedule = Schedule.between(each=request_line.executions, every=form.every, start=window.start, end=window.end)
    except RatingError as error:
        raise _refusal(str(error)) from error
    if form.name == FormName.INTERVAL:
        return schedule
    if schedule.intervals > MOST_PARTS:
        raise _refusal(
            f"A spread contract can have at most {MOST_PARTS} parts. Make the parts longer or the period shorter."
        )
    each, rest = divmod(request_line.executions, schedule.intervals)
    if rest or not each:
        nearest = max(round(Fraction(request_line.executions, schedule.intervals)), 1) * schedule.intervals
        raise _refusal(
            f"{request_line.executions:,} executions can't be split evenly into {schedule.intervals} parts. "
            f"Enter {nearest:,} instead."
        )
    return Schedule(each, form.every, schedule.intervals)


def _refusal(detail: str) -> Problem:
    return Problem(422, "Can't be sold in this form", detail, kind="form")
