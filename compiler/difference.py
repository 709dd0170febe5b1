"""What a change of a model does to its cost: two programs side by side, and a budget that the newer one must keep.

Counts are whole numbers and prices exact decimals, so a change is one of the program and never of the weather.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from compiler.errors import ModelError
from compiler.program import Program
from compiler.reporting import load_of

Value = int | Decimal | None

TITLES = {
    "cycles": ("latency", "cycles"),
    "interval": ("interval", "cycles"),
    "operations": ("operations", ""),
    "memory": ("memory", "bytes"),
    "external": ("external memory", "bytes"),
    "bytes_in": ("IO in", "bytes"),
    "bytes_out": ("IO out", "bytes"),
    "external_in": ("IO from external memory", "bytes"),
    "energy_fj": ("energy", "fJ"),
    "load_bytes": ("loading", "bytes"),
    "load_cycles": ("loading time", "cycles"),
}
PRICE = "price."
COLUMNS = ("cycles", "operations", "storage", "energy_fj")  # of one operation


@dataclass(frozen=True)
class Figure:
    """One quantity before and after. ``None``: it has no value (a price that the book does not give)."""

    key: str
    title: str
    unit: str
    before: Value
    after: Value
    told: tuple[str, str, str] | None = None
    """Title, before and after as a table for people has them, where that is not every digit."""

    @property
    def changed(self) -> bool:
        return self.before != self.after

    @property
    def share(self) -> Fraction | None:
        """The change as a share of what was before; None where there was nothing."""
        if not self.before or self.after is None:
            return None
        return Fraction(self.after) / Fraction(self.before) - 1

    def to_json(self) -> dict[str, Any]:
        """Prices as text, counts as numbers."""
        plain = [format(v, "f") if isinstance(v, Decimal) else v for v in (self.before, self.after)]
        return {
            "key": self.key,
            "title": self.title,
            "unit": self.unit,
            "before": plain[0],
            "after": plain[1],
            "percent": None if self.share is None else percent(self.share),
        }


@dataclass(frozen=True)
class Operation:
    """An operation whose share of the cost changed; ``before`` or ``after`` is None where it is new or gone."""

    name: str
    kind: str
    before: Mapping[str, int] | None
    after: Mapping[str, int] | None

    @property
    def weight(self) -> int:
        """How many cycles it makes a difference of."""
        return abs((self.after or {}).get("cycles", 0) - (self.before or {}).get("cycles", 0))

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "kind": self.kind, "before": self.before, "after": self.after}


@dataclass(frozen=True)
class Budget:
    """What a program may cost at most: ``most`` by figure, ``growth`` in percent of what it was before."""

    most: Mapping[str, Decimal] = field(default_factory=dict)
    growth: Mapping[str, Decimal] = field(default_factory=dict)

    @property
    def prices(self) -> list[str]:
        """The limits that need a price book."""
        return [key for key in (*self.most, *self.growth) if key.startswith(PRICE)]


@dataclass(frozen=True)
class Difference:
    """All that changed. ``names``: the two models; ``reasons``: why a program is a bound, empty where it is exact."""

    names: tuple[str, str]
    target: str
    precision: str
    reasons: tuple[str, str]
    figures: tuple[Figure, ...]
    operations: tuple[Operation, ...]
    over: tuple[str, ...] = ()
    new: bool = False
    """Whether there was no model before."""

    @property
    def changed(self) -> bool:
        return (
            self.new
            or bool(self.operations)
            or self.reasons[0] != self.reasons[1]
            or any(f.changed for f in self.figures)
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "models": list(self.names),
            "target": self.target,
            "precision": self.precision,
            "bounds": list(self.reasons),
            "changed": self.changed,
            "new": self.new,
            "over_budget": list(self.over),
            "figures": [f.to_json() for f in self.figures],
            "operations": [o.to_json() for o in self.operations],
        }


def difference(
    old: Program | None, new: Program, prices: Sequence[Figure] = (), budget: Budget | None = None
) -> Difference:
    """Every figure and operation of two programs of one processor and precision; ``ModelError`` when they are not. ``old`` is
    None where the model is new: then only the limits of a budget count that are no growth."""
    now = new.report()
    was = old.report() if old is not None else now
    heads = was["headline"], now["headline"]
    for key in ("target", "target_digest", "precision"):
        if heads[0][key] != heads[1][key]:
            raise ModelError(f"the programs differ in {key} ({heads[0][key]}, {heads[1][key]}); compile both for one")
    figures = (*_figures(old, new), *prices)
    return Difference(
        (heads[0]["model"], heads[1]["model"]),
        heads[0]["target"],
        heads[0]["precision"],
        (heads[0]["reason"], heads[1]["reason"]),
        figures,
        _operations({} if old is None else _rows(was), _rows(now)),
        tuple(_over(figures, budget or Budget(), new=old is None)),
        new=old is None,
    )


def _figures(old: Program | None, new: Program) -> list[Figure]:
    before, after = {} if old is None else _counts(old), _counts(new)
    return [Figure(key, title, unit, before.get(key), after[key]) for key, (title, unit) in TITLES.items()]


def _counts(program: Program) -> dict[str, int]:
    r, load = program.resources, load_of(program.resources.storage, program.target)
    return {
        "cycles": r.cycles,
        "interval": r.interval,
        "operations": r.operations,
        "memory": r.storage.total,
        "external": r.storage.external,
        "bytes_in": r.io.bytes_in,
        "bytes_out": r.io.bytes_out,
        "external_in": r.io.external_in,
        "energy_fj": r.energy_fj,
        "load_bytes": load.bytes_in,
        "load_cycles": load.cycles_in,
    }


Rows = dict[tuple[str, int], dict[str, Any]]


def _operations(before: Rows, after: Rows) -> tuple[Operation, ...]:
    """Operations are the same when they have the same key; the largest change of cycles comes first."""
    found = []
    for key in {**after, **before}:
        was, now = before.get(key), after.get(key)
        row = now or was
        if row is not None and _cost(was) != _cost(now):
            found.append(Operation(row["name"], row["kind"], _cost(was), _cost(now)))
    return tuple(sorted(found, key=lambda o: (-o.weight, o.name)))


def _cost(row: Mapping[str, Any] | None) -> dict[str, int] | None:
    return None if row is None else {column: row[column] for column in COLUMNS}


def _rows(report: dict[str, Any]) -> Rows:
    """Rows by name, without the running number at its end (an operation put in front shifts it), and place among those."""
    found: Rows = {}
    seen: Counter[str] = Counter()
    for row in report["per_operation"]:
        name = re.sub(r"/\d+$", "", row["name"])
        found[name, seen[name]] = row
        seen[name] += 1
    return found


def read_budget(text: str) -> Budget:
    """A budget file: figures and their most, ``[growth]`` in percent, ``[price]`` by class. ``ModelError`` if it is wrong."""
    try:
        data = tomllib.loads(text, parse_float=Decimal)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ModelError(f"the budget is no TOML: {error}") from None
    growth, price = (data.pop(name, {}) for name in ("growth", "price"))
    for name, table in (("growth", growth), ("price", price)):
        if not isinstance(table, dict):
            raise ModelError(f"{name} is a table in a budget: write [{name}]")
    most = _limits(data, TITLES)
    most |= {PRICE + name: value for name, value in _limits(price, price).items()}
    return Budget(most, _limits(growth, [*TITLES, *(k for k in growth if k.startswith(PRICE))]))


def _limits(table: Mapping[str, Any], known: Any) -> dict[str, Decimal]:
    found = {}
    for key, value in table.items():
        if key not in known:
            raise ModelError(f"a budget has no figure {key!r}; it has {', '.join(TITLES)}, [price] and [growth]")
        number = value if isinstance(value, int | Decimal) and not isinstance(value, bool) else None
        if number is None or not Decimal(number).is_finite() or number < 0:
            raise ModelError(f"the budget of {key} is a number of at least 0, not {value!r}")
        found[key] = Decimal(number)
    return found


def _over(figures: Sequence[Figure], budget: Budget, *, new: bool) -> list[str]:
    """A sentence for each figure that is more than its most, or grew by more than it may (what is ``new`` did not grow)."""
    found = _limited(figures, budget)
    said = []
    for key, most in budget.most.items():
        if Fraction(found[key].after or 0) > Fraction(most):
            said.append(f"{found[key].title} is {number(found[key].after)}, at most {number(most)} is allowed")
    for key, most in () if new else budget.growth.items():
        before, after = Fraction(found[key].before or 0), Fraction(found[key].after or 0)
        if after > before * (1 + Fraction(most) / 100):
            grown = percent(found[key].share)
            said.append(f"{found[key].title} grew by {grown}, at most {number(most)} % is allowed")
    return said


def _limited(figures: Sequence[Figure], budget: Budget) -> dict[str, Figure]:
    """The figures that have a value, by key; ``ModelError`` if the budget limits another one."""
    found = {f.key: f for f in figures if f.after is not None}
    for key in (*budget.most, *budget.growth):
        if key not in found:
            raise ModelError(
                f"the budget limits {key}, which has no value here; a price needs a price book that gives it"
            )
    return found


def percent(share: Fraction | None) -> str:
    """A share with its sign, to a tenth of a percent but never as nothing when it is something."""
    if share is None:
        return "from nothing"
    tenths = round(share * 1000)
    if share and not tenths:
        return "+<0.1 %" if share > 0 else "-<0.1 %"
    sign = "-" if tenths < 0 else "+"
    return f"{sign}{abs(tenths) // 10:,}.{abs(tenths) % 10} %"


def number(value: Value) -> str:
    """A count or price with marks between thousands."""
    return "none" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,f}"
