"""Reads the settings of `takt review`: which models of a repository are compared, and for which processor."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from apps.cli.planning.reading import Table, toml_read
from compiler.precision import PRECISIONS
from compiler.scheduling.initiation_interval import OBJECTIVES

FORMAT: Final = "takt-review/1"
WHAT: Final = "the settings of a review, as TOML"
EVERY = "*.onnx"
Reader = Callable[[Table, str], Any]


@dataclass(frozen=True)
class Model:
    """One entry: a path or a pattern within the repository, and how its models are compiled and limited.

    `target`, `examples`, `budget` and `book` are names or absolute paths.
    """

    pattern: str = EVERY
    target: str = "lpu"
    precision: str = "float32"
    objective: str = "balanced"
    dims: Mapping[str, int | list[int]] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    bounds: Mapping[str, int] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)
    context: int | None = None
    examples: tuple[str, ...] = ()
    budget: str | None = None
    book: str | None = None
    executions: int = 1000

    @property
    def target_name(self) -> str:
        """The processor's name, or the name of its file."""
        return Path(self.target).name

    @property
    def files(self) -> list[str]:
        """The files that these settings name: a change of one may change the verdict on a model that did not change."""
        target = [self.target] if Path(self.target).suffix == ".toml" else []
        return [*target, *self.examples, *(path for path in (self.budget, self.book) if path is not None)]


def settings_read(path: Path) -> list[Model]:
    """Return the entries of a settings file, in its order. Raises FileFault if the file is not valid.

    Keys at the top apply to every model; without a section [models.NAME] they apply to every ONNX file.
    """
    table = toml_read(path, WHAT, FORMAT).only({"format", "models", *READERS})
    common = _merged(Model(), table)
    entries = [
        replace(_merged(common, section.only({"file", *READERS})), pattern=section.text("file"))
        for _, section in table.tables("models")
    ]
    return entries or [common]


def _merged(base: Model, table: Table) -> Model:
    """Return the settings of a table, with those of `base` for the keys that it lacks."""
    return replace(base, **{key: read(table, key) for key, read in READERS.items() if key in table})


def _inner(table: Table, key: str) -> Table:
    return Table(table.path, table.at(key), table.values[key])


def _file(table: Table, key: str) -> str:
    return str(table.path_of(key).resolve())


def _target(table: Table, key: str) -> str:
    return _file(table, key) if table.text(key).endswith(".toml") else table.text(key)


def _choice(known: Collection[str]) -> Reader:
    def read(table: Table, key: str) -> str:
        if (found := table.text(key)) not in known:
            raise table.wrong(key, f"write one of {', '.join(known)}, not {found!r}.")
        return found

    return read


def _dims(table: Table, key: str) -> dict[str, int | list[int]]:
    inner = _inner(table, key)
    return {name: _sizes(inner, name) for name in inner.values}


def _states(table: Table, key: str) -> dict[str, str]:
    inner = _inner(table, key)
    return {name: inner.text(name) for name in inner.values}


def _sizes(table: Table, name: str) -> int | list[int]:
    """Return one size of a dimension, or several."""
    value = table.values[name]
    if not isinstance(value, list):
        return table.whole(name) or 1
    each = [Table(table.path, table.place, {name: one}).whole(name) or 1 for one in value]
    if not each:
        raise table.wrong(name, "write at least one size.")
    return each


def _plain(value: Any) -> Any:
    """Return the value of a constant without exact decimals, which no array takes."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return float(value) if isinstance(value, Decimal) else value


READERS: Final[dict[str, Reader]] = {
    "target": _target,
    "precision": _choice(PRECISIONS),
    "objective": _choice(OBJECTIVES),
    "dims": _dims,
    "constants": lambda table, key: _plain(_inner(table, key).values),
    "bounds": lambda table, key: table.counts(key),
    "states": _states,
    "context": lambda table, key: table.whole(key),
    "examples": lambda table, key: tuple(str((table.path.parent / name).resolve()) for name in table.texts(key)),
    "budget": _file,
    "book": _file,
    "executions": lambda table, key: table.whole(key),
}
