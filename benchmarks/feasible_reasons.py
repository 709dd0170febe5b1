"""The sentences that a plan gives against a candidate, and how each is shown true for `benchmarks.feasible`."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from re import Match

    from apps.sales.models import Contract
    from benchmarks.feasible import Row

Check = Callable[["Row", "Match[str]", "Contract | None"], bool]


def _not_compiled(one: Row, _found: Match[str], _contract: Contract | None) -> bool:
    """A part of the candidate has no program for the pool's processor as it is described now."""
    from apps.compilation.models import Program
    from apps.fleet.models import Pool

    pool = Pool.objects.select_related("processor").get(slug=one.row["pool"])
    for model, program in zip(one.row["models"], one.row["programs"], strict=True):
        narrow = "int8" if one.row["title"].endswith(" in int8") else "float32"
        rows = Program.objects.filter(model_version=UUID(model["version"]), precision=narrow)
        if pool.processor is not None:
            rows = rows.filter(target=pool.processor.name, target_digest=pool.processor.digest)
        if program is None and not rows.exists():
            return True
    return False


def _not_measured(one: Row, _found: Match[str], _contract: Contract | None) -> bool:
    from apps.fleet.models import HostMeasurement, Pool

    pool = Pool.objects.get(slug=one.row["pool"])
    digests = [one.programs[UUID(program)].digest for program in one.row["programs"] if program]
    measured = HostMeasurement.objects.filter(pool=pool, program_digest__in=digests).count()
    return pool.processor_id is None and measured < len(digests)


def _not_priced(one: Row, _found: Match[str], _contract: Contract | None) -> bool:
    from apps.fleet.models import Pool

    priced = one.facts.prices.get(Pool.objects.get(slug=one.row["pool"]).processor_class, {})
    return any(one.programs[UUID(program)].precision not in priced for program in one.row["programs"] if program)


def _not_evaluated(one: Row, _found: Match[str], _contract: Contract | None) -> bool:
    return one.proven is None and "accuracy" in one.facts.market.stated


def _accuracy(one: Row, _found: Match[str], _contract: Contract | None) -> bool:
    return one.proven is not None and one.proven.accuracy < one.facts.market.stated["accuracy"]


def _above(name: str) -> Check:
    """The row's figure, which was compared with the one worked out anew, is above what is allowed."""
    return lambda one, _found, _contract: Fraction(one.row[name]) > one.facts.market.stated[name]


def _budget(one: Row, _found: Match[str], contract: Contract | None) -> bool:
    """What the quote says is above the budget."""
    price = Decimal(one.row["price"]) if contract is None else contract.quote.worst
    return price > one.facts.market.stated["budget"]


def _later(one: Row, _found: Match[str], contract: Contract | None) -> bool:
    """Refused now, and it would fit until the farthest instant."""
    fits = one.work is not None and one.facts.fits(one.work, one.row["pool"], one.farthest)
    return contract is None and fits and one.row["completion"] > one.until.isoformat()


def _not_soon(one: Row, _found: Match[str], contract: Contract | None) -> bool:
    return contract is None and one.work is not None and not one.facts.fits(one.work, one.row["pool"], one.farthest)


def _room(one: Row, found: Match[str], contract: Contract | None) -> bool:
    """Refused, and exactly so many executions fit until the farthest instant."""
    said = int(found[1].replace(",", ""))
    return contract is None and one.work is not None and one.facts.room(one.work, one.row["pool"], one.farthest) == said


def _longest(one: Row, found: Match[str], contract: Contract | None) -> bool:
    """Refused, and the longest free gap is as long as it says."""
    from apps import figures

    if contract is not None or one.work is None:
        return False
    gaps = one.facts.free(one.row["pool"], *one.facts.limits(one.farthest, one.work.seconds))
    longest = Fraction(gaps[0] if gaps else 0, 10**6)
    return longest < one.work.seconds and found[1] == figures.duration_format(longest)


REASONS: tuple[tuple[str, str, Any], ...] = (
    ("not compiled", r"is not compiled for", _not_compiled),
    ("not measured", r"has not been measured on", _not_measured),
    ("not evaluated", r"was not evaluated", _not_evaluated),
    ("accuracy below", r"^The proven ", _accuracy),
    ("latency above", r"^One item takes", _above("latency")),
    ("duration above", r"^All items take", _above("duration")),
    ("price above the budget", r"above the budget", _budget),
    ("no room until then", r"^The pool has other work", _later),
    ("no room soon enough", r"is not free for .* in which this class must start", _not_soon),
    ("no room for so many", r"have room for at most ([0-9,]+) of its executions", _room),
    ("no room in one piece", r"the longest free time in the next .* is (.*)\.$", _longest),
    ("no price", r"price|prototype", _not_priced),
)
