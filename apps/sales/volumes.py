"""The forms in which a volume is sold (G11), as a quote is asked for and as documents state them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Any

from apps.accounts.problems import Problem
from apps.pricing.limits import Window
from apps.pricing.rating import PriceBookDocument, RatingError, Schedule, decimal_text
from apps.sales.asks import Ask
from apps.sales.models import FormName

MOST_TERA_OPERATIONS = 5_000_000
SHORTEST_PART = timedelta(hours=1)
MOST_PARTS = 62


@dataclass(frozen=True)
class Form:
    """How a volume is sold. `every` in seconds belongs to spread and interval: a line's executions of a granular interval
    are those of one interval, of a spread contract the whole volume, which is cut into equal parts."""

    name: str = FormName.EXECUTION
    every: Fraction | None = None

    def to_json(self) -> dict[str, Any]:
        return {"name": str(self.name), **({} if self.every is None else {"every": str(self.every)})}

    @staticmethod
    def from_json(document: dict[str, Any] | None) -> Form:
        """Documents without a form are of contracts per execution."""
        if document is None:
            return Form()
        every = document.get("every")
        return Form(document["name"], None if every is None else Fraction(every))


PER_EXECUTION = Form()


def forms_offered(book: PriceBookDocument) -> list[dict[str, Any]]:
    """The forms in which a program's volume is sold, each with what it means and what it costs by this book."""
    guaranteed = [one for one in book.classes.values() if one.unused and one.offered]
    interval = next((one for one in book.classes.values() if one.unused), None)
    costs = (
        f"{decimal_text(interval.surcharge)} of the list price, {decimal_text(interval.unused)} for what is not used."
        if interval
        else "The price book has no price for it."
    )
    is_late_priced = any(one.late for one in book.classes.values())
    used = "You pay for what you use" + (
        ", and the class's share of the price of what you release late or leave unused." if is_late_priced else "."
    )
    return [
        {
            "name": FormName.EXECUTION,
            "title": "Per execution",
            "offered": True,
            "means": "The executions run at any time of the period.",
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
            "means": "An exact number of executions runs in every interval, such as 500 every 1 ms.",
            "costs": f"Class {interval.title if interval else 'guaranteed'}: {costs}",
        },
    ]


def form_check(form: Form, asks: Sequence[Ask]) -> None:
    """Raises Problem for a form that does not go with what was asked."""
    if form.name not in FormName.values:
        raise _refusal(f"There is no form {form.name!r}; choose one of {', '.join(FormName.values)}.")
    needs_length = form.name in {FormName.SPREAD, FormName.INTERVAL}
    if needs_length != (form.every is not None) or (form.every is not None and form.every <= 0):
        raise _refusal(
            "State the length of a part for spread and interval contracts, above 0 seconds, and for no other."
        )
    if needs_length and len(asks) != 1:
        raise _refusal(f"A contract of the form {form.name} holds one program; make a quote for each.")
    if any(ask.facts.is_quota != (form.name == FormName.QUOTA) for ask in asks):
        raise _refusal("A quota is asked for in tera-operations, every other form in executions of a program.")
    if form.name == FormName.SPREAD and form.every is not None and form.every < Fraction(SHORTEST_PART.seconds):
        raise _refusal("A spread contract has parts of at least one hour.")


def schedule_of(form: Form, ask: Ask, window: Window) -> Schedule | None:
    """The schedule of an ask, None for forms without one. Raises Problem when the window does not hold it."""
    if form.every is None:
        return None
    if ask.schedule is not None:  # a stored one was agreed and never changes
        return ask.schedule
    try:
        schedule = Schedule.between(each=ask.executions, every=form.every, start=window.start, end=window.end)
    except RatingError as error:
        raise _refusal(str(error)) from error
    if form.name == FormName.INTERVAL:
        return schedule
    if schedule.intervals > MOST_PARTS:
        raise _refusal(
            f"A spread contract has at most {MOST_PARTS} parts; make the parts longer or the period shorter."
        )
    each, rest = divmod(ask.executions, schedule.intervals)
    if rest or not each:
        nearest = max(round(Fraction(ask.executions, schedule.intervals)), 1) * schedule.intervals
        raise _refusal(
            f"{ask.executions:,} executions cannot be cut into {schedule.intervals} equal parts; ask for {nearest:,}."
        )
    return Schedule(each, form.every, schedule.intervals)


def _refusal(detail: str) -> Problem:
    return Problem(422, "Not such a contract", detail, kind="form")
