"""The month of sample data: real services, a whole ledger, the same each time, restartable, labelled everywhere."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone
from pytest_django import Settings as SettingsWrapper

from apps.accounts.models import Organisation, User
from apps.cli.chain import chain_verify
from apps.cli.main import RIGHT, main
from apps.demo.models import SampleStep
from apps.demo.month import Month, month_due, month_make
from apps.demo.visitors import visitor_make
from apps.dispatch.models import DeviceHour, Job, JobState, Lease
from apps.dispatch.services import SampleOrder, sample_jobs_run
from apps.invoicing.exports import invoice_csv, invoice_json
from apps.invoicing.models import CreditNote, Invoice, InvoiceState
from apps.invoicing.reconciliation import reconcile_all
from apps.ledger.chain import chain_json
from apps.ledger.models import Transaction, UsageRow
from apps.notifications.models import Budget
from apps.pricing.models import PriceBook
from apps.reports.reconciling import organisation_compare
from apps.reports.revenue import revenue
from apps.sales.models import Contract, ContractState
from apps.sales.selectors import contract_usage
from tests.demo.conftest import NOW
from tests.dispatch.real import ROOT
from tests.tiers import PART, WHOLE


def books_check(organisation: Organisation) -> None:
    """Chain, accounts and every quote, contract, lease and invoice agree."""
    chain_verify(json.loads("".join(chain_json(organisation.id, now=timezone.now()))))
    assert reconcile_all(organisation).differences == []
    assert organisation_compare(organisation).differences == []


def test_a_month_lies_behind_the_demo_once_and_whole_though_its_making_was_cut_off(
    cut_off: Organisation, tmp_path: Path, as_user: Any
) -> None:
    sampled = cut_off
    once_check(sampled)
    books_check(sampled)
    contracts = Contract.objects.all()
    assert {one.form for one in contracts} == {"spread", "execution", "quota"}
    assert {one.klass for one in contracts} == {"standard", "priority", "off_peak", "batch"}
    assert len(set(UsageRow.objects.values_list("model_name", flat=True))) >= 3
    assert sum(UsageRow.objects.values_list("amount", flat=True)) > (2000 if WHOLE else 2000 // PART)
    assert {one.state for one in Invoice.objects.all()} == {InvoiceState.PAID, InvoiceState.ISSUED}
    assert CreditNote.objects.count() == 1
    assert Job.objects.exclude(state=JobState.DONE).count() == 0
    assert DeviceHour.objects.count() > (400 if WHOLE else 400 // PART), (
        "the charts of capacity and demand have hours to show"
    )
    everything = [*Transaction.objects.values_list("at", flat=True), *Lease.objects.values_list("device_to", flat=True)]
    assert sampled.sample_until is not None
    assert max(everything) < sampled.sample_until <= NOW
    days = [at.date() for at in Transaction.objects.order_by("sequence").values_list("at", flat=True)]
    assert days == sorted(days), "a day's root is the end of that day"

    for contract in Contract.objects.filter(state=ContractState.USED):
        assert contract_usage(contract).difference == 0, "what was used up costs what was quoted"
    invoice = Invoice.objects.order_by("issued_at")[0]
    paper, book = tmp_path / "invoice.json", tmp_path / "book.json"
    paper.write_text(invoice_json(invoice))
    book.write_text(json.dumps(PriceBook.objects.get().document))
    models = [str(ROOT / "samples" / f"{name}.onnx") for name in ("digits-batch", "digits-large")]
    assert main(["verify", str(paper), *models, str(book)]) == RIGHT

    budget = Budget.objects.get()
    used = sum(row.amount for row in UsageRow.objects.filter(created_at__month=11))
    assert Decimal("0.75") < used / budget.amount < 1

    labels_check(sampled, invoice, as_user)
    refused_check(sampled)


def once_check(sampled: Organisation) -> None:
    """Every step was taken once, and another start takes none."""
    names = [step.name for step in Month(sampled, NOW).steps()]
    assert sorted(SampleStep.objects.values_list("name", flat=True)) == sorted(names)
    assert month_make(organisation=sampled, now=timezone.now()) == 0
    assert not month_due(sampled)
    assert sampled.sample_until == NOW.replace(second=0)


def refused_check(sampled: Organisation) -> None:
    """What happens from the instant on is no sample data."""
    contract = Contract.objects.filter(form="quota").select_related("organisation", "pool").get()
    assert sampled.sample_until is not None
    order = SampleOrder(contract, contract.lines.all()[0].program, 1, User.objects.all()[0], sampled.sample_until)
    with pytest.raises(ValueError, match="not marked as sample data"):
        sample_jobs_run([order])


def labels_check(sampled: Organisation, invoice: Invoice, as_user: Any) -> None:
    """Nobody takes it for real."""
    owner = as_user(User.objects.get(email="owner@demo.example"))
    for path in ("/", "/portal", "/portal/usage", "/invoices", "/contracts", "/jobs", f"/invoices/{invoice.pk}"):
        assert "Sample data" in owner.get(path).content.decode(), path
    assert invoice.document["sample"]
    for path in ("/portal/usage?format=csv", "/portal/focus.csv"):
        assert "sample-data" in owner.get(path)["Content-Disposition"]
    assert "nobody owes this" in invoice_csv(invoice)
    assert owner.get(f"/api/v1/jobs/{Job.objects.all()[0].pk}").json()["is_sample"] is True

    admin = as_user(User.objects.get(email="administrator@demo.example"))
    report = revenue(month=NOW, currency="EUR", now=NOW)
    assert report.sample == report.whole.amount > 0
    assert report.real == 0
    assert [one.name for one in report.parts["customer"]] == ["Demo Robotics (sample data)"]
    for path in ("/revenue?month=2026-11", "/capacity", "/reports", "/customers"):
        assert "include sample data of Demo Robotics" in admin.get(path).content.decode(), path
    assert Decimal(admin.get("/api/v1/revenue?month=2026-11-01").json()["sample"]) == report.sample
    assert "(sample data)" in admin.get("/revenue?month=2026-11&format=csv").content.decode()


def test_the_landing_page_says_that_the_demo_is_being_prepared(seeded: Organisation, settings: SettingsWrapper) -> None:
    def said() -> str:
        return Client().get("/").content.decode()

    awaited = "A demo to look around in is being prepared; it takes about a minute."
    settings.DEMO_VISITORS = True
    assert awaited in said()
    seeded.sample_until = NOW  # the making has begun
    seeded.save(update_fields=["sample_until"])
    assert awaited in said()
    assert "Look around without an account" not in said()
    for switch in ("DEMO_VISITORS", "DEMO_MONTH"):
        setattr(settings, switch, False)
        assert awaited not in said(), switch
        setattr(settings, switch, True)
    visitor_make(organisation=seeded, now=NOW)
    assert "Look around without an account" in said()
    assert awaited not in said()


def test_the_landing_page_awaits_no_demo_where_none_is_made(seeded: Organisation, settings: SettingsWrapper) -> None:
    settings.DEMO_VISITORS = True
    seeded.sample_until = NOW
    seeded.save(update_fields=["sample_until"])
    for step in Month(seeded, NOW).steps():  # every step is done, and the owner removed the visitor
        SampleStep.objects.create(organisation=seeded, name=step.name, at=step.at)
    assert "being prepared" not in Client().get("/").content.decode()
    Organisation.objects.update(name="Another name")
    assert "being prepared" not in Client().get("/").content.decode()


def test_what_is_switched_off_or_has_a_history_of_its_own_gets_no_month(
    seeded: Organisation, settings: SettingsWrapper
) -> None:
    assert month_due(seeded)
    settings.DEMO_MONTH = False
    assert not month_due(seeded)
    call_command("demo_month")
    assert not SampleStep.objects.exists()


def test_the_public_page_of_prices_has_examples_and_nothing_of_members(seeded: Organisation) -> None:
    page = Client().get("/prices").content.decode()
    assert "What a million inferences cost" in page
    assert "/prices/compare" not in page
    assert Client().get("/prices/compare").status_code == 302
    assert Client().get("/costs").status_code == 302
