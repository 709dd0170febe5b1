"""Credit notes and credits as customers and administrators meet them: pages, files, API."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.roles import Scope
from apps.invoicing.models import CreditNote, Invoice
from apps.pricing.rating import digest_of
from tests.cast import Cast
from tests.invoicing.tenancy import an_invoice_of
from tests.invoicing.test_pages import _text
from tests.sales.tenancy import a_contract_of
from tests.sales.test_contracts import run

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
MILLION = 10**6


def _post(client: Client, path: str, body: dict[str, object]) -> dict[str, object]:
    response = client.post(path, body, content_type="application/json", headers={"Idempotency-Key": f"{body}"[:100]})
    assert response.status_code in {200, 201}, response.content
    answer: dict[str, object] = response.json()
    return answer


def test_an_administrator_takes_part_of_an_invoice_back(
    cast: Cast, as_user: AsUser, as_token: Callable[..., Client]
) -> None:
    invoice, admin = an_invoice_of(cast, executions=MILLION), as_token(cast.admin, None, Scope.ADMIN)
    path = f"/api/v1/invoices/{invoice.pk}/credit-notes"
    body: dict[str, object] = {"reason": "An hour was slow", "parts": {"1": "1.25"}}
    assert _post(admin, path, body) == _post(admin, path, body)
    note, client = CreditNote.objects.get(), as_user(cast.viewer)
    page = _text(client, f"/invoices/{invoice.pk}")
    for said in (note.number, "An hour was slow", "€ 1.25", "Payments and credits", "€ 4.38"):
        assert said in page
    base = f"/credit-notes/{note.pk}/credit-note"
    stored = json.loads(client.get(f"{base}.json").content)
    assert stored.pop("digest") == note.digest == digest_of(stored)
    (row,) = csv.DictReader(io.StringIO(client.get(f"{base}.csv").content.decode()))
    assert (row["invoice"], row["share"]) == (invoice.number, "1.25")
    first, second = (client.get(f"{base}.pdf").content for _ in range(2))
    assert first == second
    assert first.startswith(b"%PDF")
    assert client.get(f"{base}.doc").status_code == 404
    refused = admin.post(path, {"reason": "x", "parts": {"1": "9.99"}}, content_type="application/json")
    assert (refused.status_code, refused["Content-Type"]) == (422, "application/problem+json")


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"part": {"1": "0.01"}}, "unknown field part; did you mean parts?"),
        ({"parts": {}}, "No amount is given"),
        ({"parts": {"1": "0"}}, "Every amount is 0"),
        ({"parts": {"1": "0.00"}}, "Every amount is 0"),
    ],
)
def test_a_credit_note_over_nothing_or_over_what_is_mistyped_takes_nothing_back(
    cast: Cast, as_token: Callable[..., Client], parts: dict[str, object], said: str
) -> None:
    invoice, admin = an_invoice_of(cast, executions=MILLION), as_token(cast.admin, None, Scope.ADMIN)
    path = f"/api/v1/invoices/{invoice.pk}/credit-notes"
    refused = admin.post(path, {"reason": "x", **parts}, content_type="application/json")
    assert (refused.status_code, refused["Content-Type"]) == (422, "application/problem+json")
    assert said in refused.json()["detail"]
    assert not CreditNote.objects.exists()


def test_an_invoice_is_voided_or_written_off_over_the_api(cast: Cast, as_token: Callable[..., Client]) -> None:
    invoice, admin = an_invoice_of(cast, executions=MILLION), as_token(cast.admin, None, Scope.ADMIN)
    answer = _post(admin, f"/api/v1/invoices/{invoice.pk}/end", {"action": "write-off", "reason": "insolvent"})
    assert (answer["state"], answer["open"]) == ("written_off", "0")
    again = admin.post(
        f"/api/v1/invoices/{invoice.pk}/end", {"action": "void", "reason": "x"}, content_type="application/json"
    )
    assert again.status_code == 409


def test_a_credit_is_granted_seen_and_used(cast: Cast, as_user: AsUser, as_token: Callable[..., Client]) -> None:
    contract = a_contract_of(cast, executions=MILLION)
    body: dict[str, object] = {"organisation": str(cast.organisation.pk), "amount": "2.00", "reason": "Welcome"}
    _post(as_token(cast.admin, None, Scope.ADMIN), "/api/v1/credits", body)
    assert "Welcome" in _text(as_user(cast.viewer), "/portal/credits")
    run(contract, MILLION, now=timezone.now())
    client = as_user(cast.billing)
    assert "Welcome" in _text(client, "/invoices/draft")
    client.post("/invoices/issue")
    invoice = Invoice.objects.get()
    page = _text(client, f"/invoices/{invoice.pk}")
    assert "-€ 2.00" in page
    assert "€ 3.63" in page
    rows = list(csv.DictReader(io.StringIO(client.get(f"/invoices/{invoice.pk}/invoice.csv").content.decode())))
    (named,) = [row for row in rows if row["line"] == "2"]
    assert [named[name] for name in ("step", "result")] == ["credit", "-2"]
    (credit,) = as_token(cast.owner, cast.organisation, Scope.READ).get("/api/v1/credits").json()
    assert (credit["amount"], credit["left"]) == ("2", "0")


def test_what_is_overpaid_is_shown_as_a_balance(cast: Cast, as_user: AsUser) -> None:
    invoice = an_invoice_of(cast, executions=MILLION)
    admin, sent = as_user(cast.admin), {"invoice": invoice.pk, "amount": "7.00", "reference": "a <b>"}
    refused = admin.post("/payments", sent)
    assert refused.status_code == 409  # most often a point is missing
    page = refused.content.decode()
    assert 'value="7.00"' in page
    assert 'value="a &lt;b&gt;"' in page
    assert 'name="overpaid"' in page
    assert admin.post("/payments", {**sent, "overpaid": "true"}).status_code == 302
    page = _text(as_user(cast.viewer), "/portal/credits")
    assert "Balance: amounts paid or credited beyond the amount due" in page
    assert "€ 1.37" in page
