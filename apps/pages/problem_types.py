"""The problem codes, read from the document that explains them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

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

    @property
    def meaning_html(self) -> SafeString:
        return _code_spans(self.meaning)

    @property
    def remedy_html(self) -> SafeString:
        return _code_spans(self.remedy)


def _code_spans(text: str) -> SafeString:
    # what stands between backticks is code
    parts = enumerate(text.split("`"))
    return format_html_join(
        "", "{}", ((format_html("<code>{}</code>", part) if place % 2 else part,) for place, part in parts)
    )


@lru_cache(maxsize=1)
def problem_types() -> dict[str, ProblemType]:
    """Return the problem types by code, in the order of the document."""
    rows = (_ROW.match(line) for line in documents()[GUIDE].text.splitlines())
    found = [ProblemType(**{name: value.strip() for name, value in row.groupdict().items()}) for row in rows if row]
    return {one.code: one for one in found}
