"""A difference as lines of text and as Markdown: a verdict, a small table, and what changed by operation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from compiler.commands.tables import escaped, line_of
from compiler.commands.tables import markdown as table
from compiler.difference import COLUMNS, PRICE, Difference, Figure, Operation, number, percent

MOST = 200  # operations shown; JSON has all
FORMATS = ("text", "markdown", "json")
_HEADS = {"cycles": "cycles", "operations": "operations", "storage": "bytes", "energy_fj": "energy fJ"}


def rendered(found: Difference, form: str) -> str:
    """The difference in one of ``FORMATS``, with a line end."""
    if form == "json":
        return json.dumps({"verdict": verdict(found)} | found.to_json(), indent=1) + "\n"
    return "\n".join(_markdown(found) if form == "markdown" else _text(found)) + "\n"


def verdict(found: Difference) -> str:
    """The whole in one line."""
    if found.over:
        return f"Over budget: {'; '.join(found.over)}."
    if found.reasons[0] != found.reasons[1]:
        return "The cost is exact now." if not found.reasons[1] else f"The cost is a bound now: {found.reasons[1]}."
    if found.new:
        return f"New: {', '.join(f'{f.title} {number(f.after)} {f.unit}'.rstrip() for f in found.figures[:4])}."
    said = _changes([f for f in found.figures if f.changed])
    return f"Changed: {', '.join(said)}." if said else "The cost is the same; operations share it differently."


def _changes(changed: Sequence[Figure]) -> list[str]:
    """The change of each figure. Classes whose prices change alike are told together, at the end."""
    prices = {_change(f) for f in changed if f.key.startswith(PRICE)}
    alike = len(prices) == 1
    told = [f"{f.title} {_change(f)}" for f in changed if not (alike and f.key.startswith(PRICE))]
    return [*told, f"price {prices.pop()}"] if alike else told


def _change(figure: Figure) -> str:
    if not figure.changed:
        return ""
    return "new" if figure.share is None else percent(figure.share)


def _shown(found: Difference) -> list[tuple[str, str, str, str]]:
    """Rows of the table: what is nothing before and after is left out."""
    return [
        (*(f.told or (f"{f.title}, {f.unit}" if f.unit else f.title, number(f.before), number(f.after))), _change(f))
        for f in found.figures
        if f.before or f.after
    ]


def _text(found: Difference) -> list[str]:
    lines = [verdict(found), f"{_names(found)} on {found.target} in {found.precision}"]
    rows = [("", "before", "after", "change"), *_shown(found)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for title, *values in rows:
        cells = [f"{value:>{width}}" for value, width in zip(values, widths[1:], strict=True)]
        lines.append(f"  {title:{widths[0]}}  {'  '.join(cells)}".rstrip())
    for operation in found.operations[:MOST]:
        changes = [
            f"{_HEADS[c]} {_pair(operation, c)}"
            for c in COLUMNS
            if _value(operation.before, c) != _value(operation.after, c)
        ]
        lines.append(f"  {_plain(operation.name)} ({_state(operation)}): {', '.join(changes) or 'costs nothing'}")
    return [*lines, *_rest(found)]


def _markdown(found: Difference) -> list[str]:
    lines = [
        f"**{escaped(verdict(found))}**",
        "",
        f"{escaped(_names(found))} on {escaped(found.target)} in {found.precision}",
    ]
    lines += ["", *table(("", "before", "after", "change"), _shown(found))]
    if not found.operations:
        return lines
    count = len(found.operations)
    lines += ["", f"<details><summary>{count} operation{'s' if count > 1 else ''} changed</summary>", ""]
    rows = [(_plain(o.name), _state(o), *(_pair(o, column) for column in COLUMNS)) for o in found.operations[:MOST]]
    lines += table(("operation", "", *(_HEADS[c] for c in COLUMNS)), rows, left=2)
    return [*lines, *([""] if _rest(found) else []), *_rest(found), "", "</details>"]


def _rest(found: Difference) -> list[str]:
    more = len(found.operations) - MOST
    return [f"and {more} more operations"] if more > 0 else []


def _names(found: Difference) -> str:
    old, new = (_plain(name) or "model" for name in found.names)
    return old if old == new else f"{old} to {new}"


def _state(operation: Operation) -> str:
    what = "new" if operation.before is None else "gone" if operation.after is None else "changed"
    return f"{operation.kind}, {what}"


def _pair(operation: Operation, column: str) -> str:
    before, after = _value(operation.before, column), _value(operation.after, column)
    return number(after) if before == after else f"{number(before)} → {number(after)}"


def _value(counts: Mapping[str, int] | None, column: str) -> int:
    return counts[column] if counts else 0


def _plain(text: str) -> str:
    """Names come from models: one line, of bearable length."""
    line = line_of(text)
    return line if len(line) <= 120 else "..." + line[-117:]
