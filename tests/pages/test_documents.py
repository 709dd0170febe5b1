"""The documents: each can be read, found, and linked to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.test import Client
from django.urls import Resolver404, resolve

from apps.pages import definitions
from apps.pages import documents as papers
from apps.pages.documents.contents import moved_addresses, plain

DOCS = Path(__file__).resolve().parents[2] / "docs"
CUSTOMERS = [one for section in papers.sections() if section.audience == "customers" for one in section.documents]


def test_the_contents_list_every_file_once() -> None:
    listed = [document.name for section in papers.sections() for document in section.documents]
    files = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}
    assert sorted(listed) == sorted(files)


def test_customers_find_a_tutorial_guides_reference_and_explanation_before_everything_else() -> None:
    found = [(section.title, section.audience) for section in papers.sections()]
    assert [title for title, audience in found if audience == "customers"] == [
        "Tutorial",
        "How-to guides",
        "Reference",
        "Explanation",
    ]
    assert [audience for _, audience in found] == sorted(
        (a for _, a in found), key=["customers", "operators", "engineers"].index
    )


@pytest.mark.parametrize("name", sorted(papers.documents()))
def test_a_document_renders_and_its_links_lead_somewhere(name: str) -> None:
    body, _ = papers.as_html(papers.documents()[name])
    assert " style=" not in body
    for target in re.findall(r'<a href="([^"]+)"', body):
        assert re.match(r"https?:|mailto:|/|#", target), target
        if target.startswith("/docs/"):
            path, _, anchor = target.removeprefix("/docs/").partition("#")
            assert path in papers.documents(), target
            assert not anchor or f'id="{anchor}"' in papers.as_html(papers.documents()[path])[0], target
        elif target.startswith("/"):
            try:
                resolve(target.partition("#")[0])
            except Resolver404:  # pragma: no cover - only when a link is broken
                pytest.fail(f"{target} is no page")
    for picture in re.findall(r'src="/docs/([^"]+)"', body):
        assert papers.picture(picture) is not None


@pytest.mark.parametrize("name", sorted(papers.documents()))
def test_a_link_to_a_file_of_the_project_names_one_that_exists(name: str) -> None:
    path = DOCS / f"{name}.md"
    for target in re.findall(r"\]\((?!https?:|/|#|mailto:)([^)#\s]+)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize("document", CUSTOMERS, ids=lambda one: one.name)
def test_customers_read_short_paragraphs(document: papers.Document) -> None:
    """A paragraph of more than 90 words is a wall; a list or a table says it better."""
    prose = re.sub(r"```.*?```", "", document.text, flags=re.DOTALL)
    for block in prose.split("\n\n"):
        if not re.match(r"\s*(\||-|#|\d+\.)", block):
            assert len(block.split()) <= 90, block[:80]


@pytest.mark.django_db
def test_a_stranger_reads_the_glossary(client: Client) -> None:
    answer = client.get("/docs/reference/glossary")
    assert answer.status_code == 200
    assert 'id="latency"' in answer.content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["nothing", "../pyproject", "adr/../../README", "contents.toml", "images/../contents"])
def test_only_documents_and_their_pictures_are_served(client: Client, name: str) -> None:
    assert client.get(f"/docs/{name}").status_code == 404


@pytest.mark.django_db
def test_a_picture_of_a_document_is_served(client: Client) -> None:
    answer = client.get("/docs/engineering/rooms.svg")
    assert (answer.status_code, answer["Content-Type"]) == (200, "image/svg+xml")


@pytest.mark.django_db
@pytest.mark.parametrize(("old", "new"), [("glossary", "reference/glossary"), ("guides/api", "how-to/use-the-api")])
def test_an_old_address_leads_to_the_new_one(client: Client, old: str, new: str) -> None:
    answer = client.get(f"/docs/{old}")
    assert (answer.status_code, answer["Location"]) == (301, f"/docs/{new}")


def test_every_old_address_leads_to_a_document() -> None:
    moved = moved_addresses()
    assert len(moved) > 20
    assert [new for new in moved.values() if new not in papers.documents()] == []
    assert [old for old in moved if old in papers.documents()] == []


@pytest.mark.django_db
def test_the_index_shows_customers_their_part_open_and_the_rest_folded(client: Client) -> None:
    page = client.get("/docs").content.decode()
    assert page.index("Tutorial") < page.index("How-to guides") < page.index("For operators and engineers")
    assert page.index("For operators and engineers") < page.index("Decision records")
    for document in papers.documents().values():
        assert f'href="/docs/{document.name}"' in page


@pytest.mark.django_db
def test_a_document_leads_to_the_one_before_and_the_one_after_it(client: Client) -> None:
    page = client.get("/docs/how-to/upload-and-compile").content.decode()
    assert re.search(r'rel="prev" href="/docs/tutorial/command-line"', page)
    assert re.search(r'rel="next" href="/docs/how-to/read-a-report"', page)
    first, last = papers.neighbours(CUSTOMERS[0]), papers.neighbours(CUSTOMERS[-1])
    assert first[0] is None
    assert last[1] is None


def test_code_has_a_button_that_copies_it_whole() -> None:
    body, _ = papers.as_html(papers.documents()["how-to/verify-an-invoice"])
    assert 'data-copy="takt verify T-2026-000001.json model.onnx price-book-2.json"' in body


@pytest.mark.parametrize(
    ("query", "url"),
    [
        ("initiation interval", "/docs/reference/glossary#interval"),
        ("latency", "/docs/reference/glossary#latency"),
        ("Quotes", "/docs/reference/glossary#quote"),
        ("hold", "/docs/reference/glossary#hold-of-a-plan"),
        ("off-peak", "/docs/reference/glossary#off-peak"),
        ("not-allowed", "/problems/not-allowed"),
        ("receive webhooks", "/docs/how-to/receive-webhooks"),
        ("spend cap", "/docs/reference/glossary#spend-cap"),
    ],
)
def test_search_finds_the_definition_or_the_title_first(query: str, url: str) -> None:
    assert papers.search(query)[0].url == url


def test_search_puts_documents_for_customers_before_those_for_engineers() -> None:
    found = [hit.url for hit in papers.search("precision")]
    assert found.index("/docs/how-to/choose-a-precision") < next(
        place for place, url in enumerate(found) if url.startswith("/docs/compiler/")
    )


@pytest.mark.parametrize("query", ["", "   ", "zzzqqq", "🦙" * 5_000, "x" * 10_000, "((([[[***", "\\", "a " * 5_000])
def test_a_strange_query_ends_well(query: str) -> None:
    assert papers.search(query) == [] or query.startswith(("a ", "\\"))


@pytest.mark.django_db
@pytest.mark.parametrize("query", ["🦙" * 500, "x" * 2_000, "<script>alert(1)</script>", "%00", "&amp;"])
def test_a_strange_query_ends_in_a_page(client: Client, query: str) -> None:
    answer = client.get("/docs", {"q": query})
    assert answer.status_code == 200
    assert b"<script>alert" not in answer.content


def test_cells_and_rows_of_a_table_stay_apart_in_an_excerpt() -> None:
    table = "Sizes\n\n| type | bytes |\n| --- | ---: |\n| `int8` | 1 |\n| `float32` | 4 |\n\n## Next\n- one\n"
    assert plain(table) == "Sizes type · bytes; int8 · 1; float32 · 4; Next one"


def test_what_is_searched_for_is_marked_and_nothing_of_it_is_markup() -> None:
    hit = papers.search("latency")[0]
    assert "<mark>" in papers.search("cycles")[0].excerpt.lower()
    assert "<script>" not in hit.excerpt
    assert all("&<mark>" not in found.excerpt for found in papers.search("amp"))


def test_every_definition_has_a_meaning_and_an_anchor_in_the_glossary() -> None:
    body, _ = papers.as_html(papers.documents()["reference/glossary"])
    terms = definitions.all_terms()
    assert len(terms) > 20
    for term in terms:
        assert term.text
        assert f'id="{term.slug}"' in body
