"""Sentences and docstrings to be read afresh, drawn by a commit's hash. `python -m benchmarks.sentences [COUNT] [SEED]`

Prints COUNT sentences of pages and messages (templates, and texts in the code of `apps/`) and COUNT docstrings of `apps/`, each
with its place. The seed is the hash of the commit that is checked out, so that nobody can choose what is read. SEED replaces it.
Whether each one reads well is for a person to judge: this command only draws.
"""

from __future__ import annotations

import ast
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from benchmarks.arguments import parser, whole

ROOT = Path(__file__).resolve().parent.parent
COUNT = 40
WORDS = 4  # a sentence or a label of at least this many words
HIDDEN = frozenset({"script", "style", "code", "pre", "svg"})
BLOCKS = frozenset(
    {"p", "li", "td", "th", "dt", "dd", "h1", "h2", "h3", "h4", "label", "legend", "summary", "option", "div"}
)
_TAG = re.compile(r"{%.*?%}|{#.*?#}", re.DOTALL)
_VALUE = re.compile(r"{{.*?}}", re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.?!])\s+(?=[A-Z])")
_WORD = re.compile(r"\b[A-Za-z]?[a-z'-]+\b")  # capitals alone are names of the code or of SQL
_SQL = re.compile(r"(SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|DROP|ALTER|LOCK|SET|FROM|NOTIFY|LISTEN) ")
Piece = tuple[str, str]  # where it stands, and the text


class Page(HTMLParser):
    """The texts of a template, block by block."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = [""]
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in HIDDEN
        if tag in BLOCKS:
            self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in HIDDEN
        if tag in BLOCKS:
            self.texts.append("")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.texts[-1] += data


def page_sentences(path: Path) -> Iterator[Piece]:
    """What a template says, sentence by sentence; a value of the page is shown as an ellipsis."""
    page = Page()
    page.feed(_VALUE.sub("…", _TAG.sub(" ", path.read_text())))
    for text in page.texts:
        yield from _sentences(path, text)


def messages(path: Path, tree: ast.Module) -> Iterator[Piece]:
    """The texts in a module that are written for people: constants of several words that are no docstring."""
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    parts = {id(one) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for one in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(one.value) if isinstance(one, ast.Constant) else "…" for one in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation | parts:
            text = node.value
        else:
            continue
        yield from _sentences(path, text)


def docstrings(path: Path, tree: ast.Module) -> Iterator[Piece]:
    """The docstrings of a module, its classes and its functions, whole."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}", text


def _sentences(path: Path, text: str) -> Iterator[Piece]:
    for one in _SENTENCE.split(" ".join(text.split())):
        if len(_WORD.findall(one)) >= WORDS and one[0].isupper() and not _SQL.match(one):
            yield str(path.relative_to(ROOT)), one


def gathered() -> tuple[list[Piece], list[Piece]]:
    """All sentences and all docstrings, each text once, in the order of the files."""
    said = [one for path in sorted((ROOT / "templates").rglob("*.html")) for one in page_sentences(path)]
    documented: list[Piece] = []
    for path in sorted((ROOT / "apps").rglob("*.py")):
        if "migrations" not in path.parts:
            tree = ast.parse(path.read_text())
            said += messages(path, tree)
            documented += docstrings(path, tree)
    return _once(said), _once(documented)


def _once(pieces: list[Piece]) -> list[Piece]:
    return list({text: (place, text) for place, text in reversed(pieces)}.values())[::-1]


def main(arguments: list[str]) -> int:
    """Draw and print."""
    command = parser("sentences", __doc__ or "")
    command.add_argument("count", nargs="?", type=whole, default=COUNT, help=f"of each kind (default: {COUNT})")
    command.add_argument("seed", nargs="?", help="what draws (default: the hash of the commit that is checked out)")
    given = command.parse_args(arguments)
    seed = given.seed or _head()
    draw = random.Random(seed)
    for title, pieces in zip(("sentences", "docstrings"), gathered(), strict=True):
        drawn = draw.sample(pieces, min(given.count, len(pieces)))
        print(f"{title}: {len(drawn)} of {len(pieces):,}, drawn by {seed}\n")
        for number, (place, text) in enumerate(drawn, 1):
            print(f"{number:3d} {place}\n    {text}\n")
    return 0


def _head() -> str:
    command = ["git", "rev-parse", "HEAD"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
