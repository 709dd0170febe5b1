"""The list of the corpus: each model with its family, its source and its recipe."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.corpus.split import part

LIST = Path(__file__).with_name("models.toml")
SOURCES = ("tested", "public", "light", "exported")


@dataclass(frozen=True)
class Model:
    """One model of the corpus. ``maker``: module and function of ``nets``, ``recipe``: that function's arguments."""

    name: str
    family: str
    source: str  # of SOURCES
    package: str = ""  # where the architecture comes from; fetched models state theirs in their own list
    licence: str = ""
    maker: str = ""
    recipe: dict[str, Any] = field(default_factory=dict)

    @property
    def part(self) -> str:
        """``work`` or ``report``."""
        return part(self.name)


def models(path: Path = LIST) -> dict[str, Model]:
    """All models by name, in the order of the list."""
    written = tomllib.loads(path.read_text(encoding="utf-8"))
    found = {}
    for source in SOURCES:
        for name, entry in written[source].items():
            package = entry.get("package", "onnx" if source == "light" else "")
            licence = written["licences"][package] if package else ""
            found[name] = Model(
                name, entry["family"], source, package, licence, entry.get("maker", ""), entry.get("with", {})
            )
    return found
