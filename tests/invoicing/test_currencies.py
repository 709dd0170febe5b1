"""Money in currencies of no, two and three places: entered, capped, invoiced, printed and paid as their units are."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from django.core import mail
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st
from pypdf import PdfReader

from apps.accounts.models import User
from apps.accounts.roles import Scope
from apps.figures import NARROW_SPACE
from apps.invoicing.drafting import currencies_open
from apps.invoicing.mails import invoice_mail
from apps.invoicing.models import Invoice
from apps.invoicing.outbox import outbox_deliver
from apps.invoicing.services import invoice_issue, invoices_issue_month
from apps.ledger.models import Cap, OutboxRow
from apps.ledger.services import CapMissing, hold_place
from apps.notifications.budgets.services import budget_create
from apps.portal.customers.forms import GrantForm
from apps.pricing.rating import Currency
from apps.pricing.services import pricebook_publish
from apps.sales.models import Contract
from apps.sales.services import quote_accept, quote_create
from tests.cast import Cast
from tests.invoicing.test_pages import _text
from tests.pricing.rating.books import document
from tests.sales.market import START, Market, open_market
from tests.sales.test_contracts import run

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
AsToken = Callable[..., Client]
SPRING, LATER, SUMMER = (datetime(2026, month, 10, 9, tzinfo=UTC) for month in (4, 6, 7))
MILLION = 10**6
# Currency, price of a tera-operation, what a million executions (704 of them) come to, to pay, one unit too fine, in words.
CASES = [
    ("JPY", 0, "0.8", "JPY 563.2", "JPY 563", "0.5", "JPY has no decimal places; write 1."),
    ("EUR", 2, "0.008", "€ 5.632", "€ 5.63", "0.126", "EUR has 2 decimal places; write 0.12."),
    ("KWD", 3, "0.0008", "KWD 0.5632", "KWD 0.563", "0.1264", "KWD has 3 decimal places; write 0.126."),
]


def priced(code: str, exponent: int, price: str, version: int = 1) -> Callable[[dict[str, Any]], None]:
    """The shipped book in another currency, at another price."""

    def change(d: dict[str, Any]) -> None:
        d.update(version=version, currency={"code": code, "exponent": exponent})
        d["prices"]["lpu"]["float32"] = price

    return change


def bought(cast: Cast, market: Market, executions: int, now: datetime) -> Contract:
    program = market.program(cast.organisation, cast.engineer)
    quote = quote_create(
        organisation=cast.organisation,
        lines=[(program, executions)],
        klass="standard",
        pool=market.lpu,
        actor=None,
        now=now,
    )
    return quote_accept(quote_id=quote.id, organisation=cast.organisation, actor=cast.owner, now=now)


def printed(paper: bytes) -> str:
    pages = "".join(page.extract_text() for page in PdfReader(io.BytesIO(paper)).pages)
    return " ".join(pages.replace(NARROW_SPACE, " ").replace("\xa0", " ").split())


def sent(client: Client, method: str, path: str, **body: Any) -> tuple[int, Any]:
    given = {"content_type": "application/json", "headers": {"Idempotency-Key": f"{path}{body}"[:100]}}
    response = getattr(client, method)(path, body, **given)
    return response.status_code, response.json()


@pytest.mark.parametrize(("code", "exponent", "price", "exact", "due", "fine", "said"), CASES)
def test_an_invoice_is_shown_and_paid_in_its_currencys_units(
    cast: Cast,
    as_user: AsUser,
    as_token: AsToken,
    code: str,
    exponent: int,
    price: str,
    exact: str,
    due: str,
    fine: str,
    said: str,
) -> None:
    market = open_market(change=priced(code, exponent, price))
    run(bought(cast, market, MILLION, SPRING), MILLION, now=SPRING)
    invoice = invoice_issue(organisation=cast.organisation, actor=None, now=LATER)
    client, admin = as_user(cast.owner), as_token(cast.admin, None, Scope.ADMIN)
    rows = csv.DictReader(io.StringIO(client.get(f"/invoices/{invoice.pk}/invoice.csv").content.decode()))
    last = [list(row.values()) for row in rows if row["line"]][-1]
    assert {code, exact.partition(" ")[2]} <= set(last)
    pages = (
        _text(client, f"/invoices/{invoice.pk}"),
        _text(client, "/invoices"),
        printed(client.get(f"/invoices/{invoice.pk}/invoice.pdf").content),
    )
    for page in pages:
        assert due in page
        assert exact in page
        assert f"{due}.00" not in page
    invoice_mail(OutboxRow.objects.get(topic="invoice.issued"), now=LATER)
    assert f"for {due.replace(' ', NARROW_SPACE)} is due" in mail.outbox[-1].body
    path, unit = f"/api/v1/invoices/{invoice.pk}", Decimal(1).scaleb(-exponent)
    status, problem = sent(admin, "post", f"{path}/paid", amount=fine, reference="a")
    assert (status, problem["code"], problem["detail"]) == (422, "amount", said)
    assert sent(admin, "post", f"{path}/paid", amount=f"{unit:f}", reference="a")[0] == 200
    status, problem = sent(admin, "post", f"{path}/credit-notes", reason="slow", parts={"1": fine})
    assert (status, problem["detail"]) == (422, said)
    status, note = sent(admin, "post", f"{path}/credit-notes", reason="slow", parts={"1": f"{2 * unit:f}"})
    assert (status, Decimal(note["total"])) == (201, 2 * unit)
    assert f"{2 * unit:f}" in printed(client.get(f"/credit-notes/{note['id']}/credit-note.pdf").content)
    invoice.refresh_from_db()
    assert invoice.open == invoice.due - 3 * unit
    browser = as_user(cast.admin)
    assert f'value="{invoice.open:.{exponent}f}"' in browser.get("/payments").content.decode()
    given = {"invoice": str(invoice.pk), "reference": "b"}
    assert said.split(";", maxsplit=1)[0] in _shown(browser.post("/payments", given | {"amount": fine}))
    assert browser.post("/payments", given | {"amount": f"{invoice.open:.{exponent}f}"}).status_code == 302
    invoice.refresh_from_db()
    assert (invoice.open, invoice.state) == (0, "paid")


def _shown(response: Any) -> str:
    return " ".join(response.content.decode().split())


@pytest.mark.parametrize(("code", "exponent", "price", "exact", "due", "fine", "said"), CASES)
def test_caps_budgets_and_commitments_are_entered_in_their_currencys_units(
    cast: Cast,
    as_user: AsUser,
    as_token: AsToken,
    code: str,
    exponent: int,
    price: str,
    exact: str,
    due: str,
    fine: str,
    said: str,
) -> None:
    open_market(change=priced(code, exponent, price))
    api = as_token(cast.billing, cast.organisation, Scope.READ, Scope.BUY, Scope.BILLING)
    browser = as_user(cast.billing)
    unit = f"{Decimal(1).scaleb(-exponent):f}"
    for method, path, field in (
        ("put", "/api/v1/spend-cap", "amount"),
        ("post", "/api/v1/budgets", "amount"),
        ("post", "/api/v1/commitments", "minimum"),
    ):
        more = {"kind": "year"} if field == "minimum" else {}
        status, problem = sent(api, method, path, **{field: fine}, **more)
        assert (status, problem["detail"]) == (422, said), path
        status, answer = sent(api, method, path, **{field: unit}, **more)
        assert (status in {200, 201}, answer["currency"]) == (True, code), path
    for path, more in (
        ("/portal/caps", {"scope": "organisation"}),
        ("/portal/budgets", {"scope": "organisation"}),
    ):
        page = browser.post(path, {"amount": fine, **more})
        assert said in _shown(page), path
        twice = f"{Decimal(unit) * 2:f}"  # the budget of one unit is there already
        assert browser.post(path, {"amount": twice, **more}).status_code == 302, path


def two_books(price: str = "0.8") -> Market:
    """Prices in euros, and from May on in yen."""
    market = open_market()
    start = datetime(2026, 5, 1, tzinfo=UTC)
    pricebook_publish(document=document(priced("JPY", 0, price, 2)), effective_from=start, now=START)
    return market


def test_a_cap_in_euros_refuses_yen_with_the_remedy_and_is_not_lost_by_it(
    cast: Cast, as_user: AsUser, as_token: AsToken
) -> None:
    market, api = two_books(), as_token(cast.billing, cast.organisation, Scope.READ, Scope.BILLING)
    assert sent(api, "put", "/api/v1/spend-cap", amount="100.50", currency="EUR")[1]["currency"] == "EUR"
    answer = api.get("/api/v1/spend-cap").json()
    assert answer == {"cap": None, "used": "0", "held": "0", "currency": "JPY", "refuses": True}
    with pytest.raises(
        CapMissing,
        match=r"priced in JPY\. Ask an owner or a billing person to set a cap in JPY or to remove the cap in EUR",
    ):
        bought(cast, market, MILLION, SUMMER)
    quote = quote_create(
        organisation=cast.organisation,
        lines=[(market.program(cast.organisation, cast.engineer), MILLION)],
        klass="standard",
        pool=market.lpu,
        actor=None,
        now=datetime.now(UTC),
    )
    browser = as_user(cast.owner)
    for page in (browser.get(f"/quotes/{quote.pk}/accept"), browser.post(f"/quotes/{quote.pk}/accept")):
        assert "/portal/caps?currency=JPY" in page.content.decode()
    assert Contract.objects.count() == 0
    assert (
        browser.post("/portal/caps", {"scope": "organisation", "amount": "563", "currency": "JPY"}).status_code == 302
    )
    refused = browser.post(f"/quotes/{quote.pk}/accept").content.decode()
    assert "only JPY\u202f563 of this month&#x27;s cap of JPY\u202f563 is left" in refused
    assert sent(api, "put", "/api/v1/spend-cap", amount="564")[1]["cap"] == "564"
    assert browser.post(f"/quotes/{quote.pk}/accept").status_code == 302
    rows = {one["currency"]: (one["cap"], one["held"]) for one in api.get("/api/v1/spend-caps").json()}
    assert rows == {"EUR": ("100.5", "0"), "JPY": ("564", "563.2")}
    text = _text(browser, "/portal/caps")
    assert "€ 100.50" in text
    assert "JPY 564" in text
    older = uuid4()
    hold_place(
        organisation_id=cast.organisation.id,
        contract_id=older,
        amount=Decimal("2.5"),
        currency="EUR",
        idempotency_key=f"contract:{older}",
        now=datetime.now(UTC),
    )
    overview = _text(browser, "/")
    assert "JPY 563" in overview
    assert "€ 2.50" in overview
    assert sent(api, "put", "/api/v1/spend-cap", amount=None)[1] | {"held": ""} == {
        "cap": None,
        "used": "0",
        "held": "",
        "currency": "JPY",
        "refuses": True,
    }
    assert Cap.objects.get().currency == "EUR"
    status, problem = sent(api, "put", "/api/v1/spend-cap", amount="1", currency="USD")
    assert (status, problem["detail"]) == (422, "No price book is in USD; choose JPY, EUR.")


def test_each_currency_has_an_invoice_and_one_that_is_too_small_keeps_no_other_back(
    cast: Cast, as_user: AsUser, as_token: AsToken
) -> None:
    market = two_books()
    run(bought(cast, market, MILLION, SPRING), MILLION, now=SPRING)
    run(bought(cast, market, 1000, SUMMER), 1000, now=SUMMER)  # 0.5632 yen: not worth an invoice
    august = SUMMER + timedelta(days=30)
    assert currencies_open(cast.organisation, until=august) == ["EUR", "JPY"]
    client, api = as_user(cast.owner), as_token(cast.owner, cast.organisation, Scope.READ)
    page = _text(client, "/invoices")
    assert "€ 5.632" in page
    assert "JPY 0.5632" in page
    assert "JPY 0.5632" in _text(client, "/invoices/draft?currency=JPY")
    draft = api.get("/api/v1/invoices/draft?currency=JPY").json()
    assert (draft["document"]["currency"], draft["open"]) == ({"code": "JPY", "exponent": 0}, ["EUR", "JPY"])
    assert invoices_issue_month(now=august) == 1
    assert Invoice.objects.get().currency == "EUR"
    assert invoices_issue_month(now=august) == 0
    run(bought(cast, market, MILLION, SUMMER), MILLION, now=SUMMER)
    assert invoices_issue_month(now=august) == 1
    newest = Invoice.objects.order_by("sequence").last()
    assert newest is not None
    assert (newest.currency, newest.payable) == ("JPY", Decimal(564))


def test_a_budget_in_yen_is_told_of_in_yen(cast: Cast) -> None:
    market = open_market(change=priced("JPY", 0, "0.8"))
    budget_create(organisation=cast.organisation, amount=Decimal(564), currency="JPY", actor=cast.owner, now=SPRING)
    run(bought(cast, market, MILLION, SPRING), MILLION, now=SPRING)
    while outbox_deliver(now=SPRING):
        pass
    letters = [one.body for one in mail.outbox if "budget" in one.subject]
    assert letters
    assert all(f"% of the budget of JPY{NARROW_SPACE}564 for" in one for one in letters)
    assert all(f"Used so far: JPY{NARROW_SPACE}563.2." in one for one in letters)


@given(st.sampled_from(["JPY", "EUR", "KWD", None]), st.integers(0, 10**9), st.integers(0, 4))
def test_a_form_reads_its_amounts_in_the_currency_that_is_chosen(chosen: str | None, digits: int, places: int) -> None:
    """Without a choice in the first that is offered."""
    known = {"KWD": 3, "JPY": 0, "EUR": 2}
    amount = Decimal(digits).scaleb(-places)
    told = {"amount": f"{amount:,f}", "reason": "a try", "key": str(uuid4()), "currency": chosen or ""}
    form = GrantForm(told, currencies=[Currency(code, exponent) for code, exponent in known.items()])
    if places <= known[chosen or "KWD"]:
        assert form.is_valid(), form.errors
        assert (form.cleaned_data["amount"], form.chosen.code) == (amount, chosen or "KWD")
    else:
        assert f"{chosen or 'KWD'} has" in form.errors["amount"][0]


def test_a_form_refuses_a_currency_that_is_not_offered() -> None:
    told = {"amount": "1", "reason": "a try", "key": str(uuid4()), "currency": "USD"}
    assert "currency" in GrantForm(told, currencies=[Currency("EUR", 2)]).errors
