"""The times at which a class of service may run."""

from __future__ import annotations

from datetime import datetime

from apps.accounts.problems import Problem
from apps.pricing.rating import PriceBookDocument, PriceClass, tariff_bound
from apps.pricing.windows import DEFAULT_WINDOW, LONGEST_WINDOW, Limits, Window, limits_of

__all__ = ["DEFAULT_WINDOW", "LONGEST_WINDOW", "Limits", "Window", "limits_of", "tariff_instant", "window_of"]


def window_of(start: datetime | None, end: datetime | None, *, now: datetime) -> Window:
    """Return the requested window; by default, seven days from now. Raises Problem if the window is invalid."""
    begin = max(start or now, now)
    finish = end or begin + DEFAULT_WINDOW
    if finish <= begin:
        raise Problem(422, "Window is over", "The window must end in the future, and after its start.", kind="window")
    if finish - now > LONGEST_WINDOW:
        raise Problem(
            422,
            "Window too long",
            f"A window can end at most {LONGEST_WINDOW.days} days from now; end it earlier.",
            kind="window",
        )
    return Window(begin, finish)


def tariff_instant(*, book: PriceBookDocument, price_class: PriceClass, window: Window) -> datetime:
    """Return the instant in the window that determines the tariff.

    An off-peak class takes the first off-peak instant. A class whose price follows the hours takes the most expensive
    instant. All other classes take the start. Raises Problem if an off-peak class has no off-peak instant.
    """
    bound = tariff_bound(book, price_class.name, window.start, window.end)
    if bound is None:
        raise Problem(
            422,
            "No off-peak hour",
            f"The window has no off-peak hour in {book.tariff.zone}; make it longer, move it, or choose another class.",
            kind="no-off-peak",
        )
    return bound
