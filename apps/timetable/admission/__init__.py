"""Find where a piece of work fits. Pure functions over free time, in whole microseconds; no Django, no clock.

>>> work = Work(count=3, each=Fraction(10))
>>> place(work, {"d": [Interval(0, 5), Interval(20, 90)]}, Limits(0, 100)).windows
(Piece(device='d', start=20, end=50, count=3),)
"""

from fractions import Fraction

from apps.timetable.admission.intervals import Interval, clip, free_between, intersect, merge, total, within
from apps.timetable.admission.placement import Limits, Piece, Placement, Rated, Refusal, Work, place, place_each

__all__ = [
    "Fraction",
    "Interval",
    "Limits",
    "Piece",
    "Placement",
    "Rated",
    "Refusal",
    "Work",
    "clip",
    "free_between",
    "intersect",
    "merge",
    "place",
    "place_each",
    "total",
    "within",
]
