"""The tutorial and the guides say what the pages say: every label that a reader is told to choose or press is on a page."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from django.urls import resolve

from apps.pages import documents as papers
from apps.registry.selectors import SAMPLES
from takt import Client

ROOT = Path(__file__).resolve().parents[2]
TOLD = re.compile(r"""(?:[Cc]hoose|[Pp]ress|[Oo]pen|[Uu]nder|then|\*\*,) (?:\*\*([^*]+)\*\*|"([^"]+)")""")
CUSTOMERS = [one for section in papers.sections() if section.audience == "customers" for one in section.documents]
GUIDES = [one for one in papers.documents().values() if one.section in {"Tutorial", "How-to guides"}]


@cache
def words_of_pages() -> str:
    """Everything that pages can say: templates, scripts, and the texts in the rooms' Python."""
    paths = [
        *(ROOT / "templates").rglob("*.html"),
        *(ROOT / "static" / "js").glob("*.js"),
        *(ROOT / "apps").rglob("*.py"),
    ]
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


@pytest.mark.parametrize("document", GUIDES, ids=lambda one: one.name)
def test_every_label_that_a_reader_is_told_to_use_is_on_a_page(document: papers.Document) -> None:
    labels = {(bold or quoted).strip() for bold, quoted in TOLD.findall(document.text)}
    pages = words_of_pages()
    missing = {
        label for label in labels if not re.search(rf"(?<![\w]){re.escape(label)}(?![\w])", pages) or len(label) < 3
    }
    assert missing == set()


def test_the_tutorial_uses_a_sample_that_there_is() -> None:
    assert f'Under "{SAMPLES[0].title}"' in papers.documents()["tutorial/ten-minutes"].text


def test_the_tutorial_runs_as_many_executions_as_it_checks_on_the_invoice() -> None:
    text = papers.documents()["tutorial/ten-minutes"].text
    assert "Enter 4 under" in text
    assert "four executions, at the quoted price" in text


def code_of(document: papers.Document, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", document.text, flags=re.DOTALL)


@pytest.mark.parametrize("document", CUSTOMERS, ids=lambda one: one.name)
def test_code_for_python_can_be_read_and_calls_methods_that_the_client_has(document: papers.Document) -> None:
    for code in code_of(document, "python"):
        for node in ast.walk(ast.parse(code)):
            is_call = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "client"
            if is_call and isinstance(node, ast.Attribute):
                assert hasattr(Client, node.attr), node.attr


@pytest.mark.parametrize("document", CUSTOMERS, ids=lambda one: one.name)
def test_every_address_of_the_api_that_a_document_names_exists(document: papers.Document) -> None:
    for address in re.findall(r"(/api/v1/[\w/<>{}.-]+)", document.text):
        path = re.sub(r"[<{]id[>}]", "0b6f9a52-6f0e-4a7b-9d0c-3f0f6a1c2d3e", address.rstrip("."))
        path = re.sub(r"[<{]version[>}]", "1", path)
        assert resolve(path), address


@pytest.mark.parametrize(
    ("step", "label", "place"),
    [
        ("1. Create an account", "Create an account", "templates/pages/landing.html"),
        ("1. Create an account", "Open this installation's mailbox", "templates/accounts/email_sent.html"),
        ("2. Upload a model", "Upload a model", "apps/pages/dashboard.py"),
        ("2. Upload a model", "Use this sample", "templates/registry/upload.html"),
        ("3. Compile it", "Compile", "templates/compilation/version_detail.html"),
        ("3. Compile it", "Open the report", "templates/compilation/_progress.html"),
        ("5. Get a quote", "Quote", "templates/compilation/report.html"),
        ("5. Get a quote", "Make this quote", "templates/sales/_offer.html"),
        ("6. Accept it", "Accept", "templates/sales/quote_detail.html"),
        ("6. Accept it", "Accept for", "templates/sales/quote_accept.html"),
        ("7. Run a job", "Run a job", "templates/sales/contract_detail.html"),
        ("7. Run a job", "Generate test inputs", "apps/dispatch/forms.py"),
        ("7. Run a job", "Submit", "templates/dispatch/job_new.html"),
        ("8. Read the invoice", "Invoices", "apps/pages/navigation.py"),
        ("8. Read the invoice", "Preview draft", "templates/invoicing/invoice_list.html"),
    ],
)
def test_a_step_of_the_tutorial_names_what_its_page_shows(step: str, label: str, place: str) -> None:
    section = papers.documents()["tutorial/ten-minutes"].text.partition(f"## {step}\n")[2].partition("\n## ")[0]
    assert f"**{label}**" in section or f'"{label}"' in section
    assert label in (ROOT / place).read_text(encoding="utf-8")
