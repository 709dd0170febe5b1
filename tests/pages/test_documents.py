"""The documents: each can be read, found, and linked to."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from apps.pages import definitions
from apps.pages import documents as papers


@pytest.mark.parametrize("name", sorted(papers.documents()))
def test_a_document_renders_and_its_links_lead_somewhere(name: str) -> None:
    body, _ = papers.as_html(papers.documents()[name])
    assert " style=" not in body
    for target in re.findall(r'href="(/docs/[^"#]+)', body):
        assert target.removeprefix("/docs/") in papers.documents(), target


@pytest.mark.django_db
def test_a_stranger_reads_the_glossary(client: Client) -> None:
    answer = client.get("/docs/glossary")
    assert answer.status_code == 200
    assert 'id="latency"' in answer.content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["nothing", "../pyproject", "adr/../../README"])
def test_only_documents_are_served(client: Client, name: str) -> None:
    assert client.get(f"/docs/{name}").status_code == 404


def test_search_finds_the_passage_that_holds_all_words() -> None:
    hits = papers.search("initiation interval")
    assert hits[0].url == "/docs/glossary#interval"
    assert papers.search("zzzqqq") == []
    assert papers.search("") == []


def test_what_is_searched_for_is_marked_and_nothing_of_it_is_markup() -> None:
    hit = papers.search("latency")[0]
    assert "<mark>" in hit.excerpt.lower()
    assert papers.search("<script>") == [] or "<script>" not in papers.search("<script>")[0].excerpt


def test_every_definition_has_a_meaning_and_an_anchor_in_the_glossary() -> None:
    body, _ = papers.as_html(papers.documents()["glossary"])
    terms = definitions.all_terms()
    assert len(terms) > 20
    for term in terms:
        assert term.text
        assert f'id="{term.slug}"' in body
