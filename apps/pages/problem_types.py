"""The problem codes, read from the document that explains them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from apps.pages.documents import documents

GUIDE = "reference/problems"
_ROW = re.compile(r"^\| `(?P<code>[a-z0-9-]+)` \| (?P<status>[^|]+) \| (?P<meaning>[^|]+) \| (?P<remedy>[^|]+) \|$")


@dataclass(frozen=True)
class ProblemType:
    """A problem code with its HTTP statuses, its meaning, and what to do."""

    code: str
    status: str
    meaning: str
    remedy: str

    @property
    def title(self) -> str:
        return self.code.replace("-", " ").capitalize()


@lru_cache(maxsize=1)
def problem_types() -> dict[str, ProblemType]:
    """Return the problem types by code, in the order of the document."""
    rows = (_ROW.match(line) for line in documents()[GUIDE].text.splitlines())
    found = [ProblemType(**{name: value.strip() for name, value in row.groupdict().items()}) for row in rows if row]
    return {one.code: one for one in found}
