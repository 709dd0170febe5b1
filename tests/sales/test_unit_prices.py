"""One price, one rendering: whoever reads a page or a paper sees four significant digits; programs get every digit."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from io import BytesIO
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pypdf import PdfReader

from apps.accounts.models import User
from apps.invoicing.models import Invoice
from apps.invoicing.services import invoice_issue
from apps.sales.models import Contract
from tests.cast import Cast
from tests.sales.market import open_market
from tests.sales.tenancy import a_contract_of
from tests.sales.test_contracts import run

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
EXACT, SAID = "0.008123456789", "€ 8.123 per thousand tera-operations"
MILLION = 1_000_000


def _dear(document: dict[str, Any]) -> None:
    document["prices"]["lpu"]["float32"] = EXACT


@pytest.fixture
def contract(cast: Cast) -> Contract:
    """Bought at a price with more digits than anybody reads."""
    open_market(change=_dear)
    return a_contract_of(cast, executions=MILLION)


@pytest.fixture
def invoice(cast: Cast, contract: Contract) -> Invoice:
    """All of it was used."""
    run(contract, MILLION, now=timezone.now())
    return invoice_issue(organisation=cast.organisation, actor=cast.billing, now=timezone.now())


def _page(client: Client, path: str) -> str:
    """What a page says, without what a pointer has to rest on."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", client.get(path).content.decode())).split())


def _paper(client: Client, path: str) -> str:
    pages = PdfReader(BytesIO(client.get(path).content)).pages
    return " ".join(" ".join(page.extract_text() for page in pages).split())


def test_every_table_of_steps_says_it_alike(cast: Cast, contract: Contract, invoice: Invoice, as_user: AsUser) -> None:
    client = as_user(cast.owner)
    quote = f"/quotes/{contract.quote_id}"
    pages = [
        quote,
        f"/contracts/{contract.pk}",
        f"/invoices/{invoice.pk}",
        f"/quotes/compare?quote={contract.quote_id}",
    ]
    said = {path: _page(client, path) for path in pages}
    papers = (f"{quote}/quote.pdf", f"/invoices/{invoice.pk}/invoice.pdf")
    said |= {path: _paper(client, path) for path in papers}
    for path, text in said.items():
        assert SAID in text, path
        assert EXACT not in text, path
    assert client.get(quote).content.decode().count(f"{EXACT} EUR per tera-operation") == 1, (
        "to who rests the pointer there"
    )


def test_files_for_programs_keep_every_digit(cast: Cast, contract: Contract, invoice: Invoice, as_user: AsUser) -> None:
    client = as_user(cast.owner)
    for kind in ("csv", "json"):
        for path in (f"/quotes/{contract.quote_id}/quote.{kind}", f"/invoices/{invoice.pk}/invoice.{kind}"):
            assert f"{EXACT} EUR per tera-operation (10^12)" in client.get(path).content.decode(), path
