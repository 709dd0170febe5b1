"""The architecture page: its rooms are those of the code, and every path and name on it exists."""

from __future__ import annotations

import re

import pytest

from bin import rooms

FOLDER = rooms.PAGE.parent
PAGES = sorted(FOLDER.glob("*.md"))
LINKS = [
    (page.name, name, target)
    for page in PAGES
    for name, target in re.findall(r"\[([^\]]+)\]\((\.\./\.\./[^)#]+)\)", page.read_text(encoding="utf-8"))
]


def test_the_page_lists_the_rooms_that_the_import_contract_lists() -> None:
    remedy = (
        "add the room to the table of docs/engineering/architecture.md, in the order of pyproject.toml; then make rooms"
    )
    assert list(rooms.purposes()) == rooms.rooms(), remedy


def test_every_room_is_a_folder_and_every_folder_is_a_room() -> None:
    folders = {path.parent.name for path in (rooms.ROOT / "apps").glob("*/apps.py")}
    assert folders == set(rooms.rooms()) - {"compiler"}


def test_the_picture_is_of_these_rooms() -> None:
    drawn = rooms.picture(rooms.rooms(), rooms.purposes())
    assert rooms.PICTURE.read_text(encoding="utf-8") == drawn, "draw it again: make rooms"


@pytest.mark.parametrize(("page", "name", "target"), LINKS, ids=lambda part: part.removeprefix("../../"))
def test_a_path_exists_and_has_the_name_beside_it(page: str, name: str, target: str) -> None:
    path = (FOLDER / target).resolve()
    assert path.exists(), f"{page} links {target}"
    is_name = re.fullmatch(r"\w+", name) and path.suffix == ".py"
    if is_name and name != path.stem and name not in rooms.rooms():
        text = path.read_text(encoding="utf-8")
        assert re.search(rf"^\s*(?:def|class) {name}\b|^{name}\b.*=|import .*\b{name}\b", text, flags=re.MULTILINE), (
            f"{page}: {name} is not in {target}"
        )


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Where is an off-peak discount computed?", "apps/pricing/rating/pipeline.py"),
        ("An inbound webhook arrives", "apps/collection/views.py"),
        ("Add a class of service", "apps/pricing/rating/book.py"),
        ("A lease completes", "apps/dispatch/services/leases.py"),
        ("What does the report page of a program read?", "apps/pages/report/page.py"),
        ("Where is a matrix product cut into tiles?", "compiler/tiling/contraction.py"),
        ("What decides which operand is stationary?", "compiler/tiling/stationary.py"),
        ("Where would a new epilogue go?", "compiler/passes/legalise.py"),
        ("How is the initiation interval found?", "compiler/scheduling/initiation_interval.py"),
        ("What must I add for a new operator?", "compiler/frontend/operators/__init__.py"),
    ],
)
def test_a_question_of_a_newcomer_is_answered_beside_the_file(question: str, answer: str) -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    following = text.partition(question)[2].split("\n## ")[0][:1_500]
    assert answer in following


def test_a_link_into_the_code_shows_its_path_where_the_site_cannot_open_it() -> None:
    from apps.pages import documents

    body, _ = documents.as_html(documents.documents()["engineering/architecture"])
    assert "quote_accept (<code>apps/sales/services/accepting.py</code>)" in body
