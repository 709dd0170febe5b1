"""One month of one customer, produced by real leases of compiled programs, and read back from everything that people get.

Three contracts of different classes run on real workers: batch on the simulated processor, used up in full; priority on
this machine's own CPU, part of it served too late and so billed as the lesser class; a raw quota of which a part is drawn.
One block is missed through silent workers and is credited by itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from django.test import Client
from django.utils import timezone

from apps.compilation.models import Program
from apps.dispatch import measurement
from apps.dispatch import services as dispatch
from apps.dispatch.execution import lease_execute
from apps.dispatch.models import Job, JobState, Lease, LeaseState
from apps.invoicing.models import Invoice
from apps.invoicing.services import grant_create, guarantees_credit_due, invoice_issue
from apps.pricing.rating import exact_sum
from apps.sales.models import Contract
from apps.sales.services import Quota, contract_close, contract_end, quote_accept, quote_create
from tests.cast import Cast
from tests.dispatch.real import digits_programs
from tests.dispatch.scene import Scene
from tests.money.reading import Page, amounts, money, paper_text, printed, table_of
from tests.sales.market import open_market

EARLIER = timedelta(hours=3)


@dataclass
class Month:
    """What was sold and run, and the invoice about it."""

    scene: Scene
    contracts: list[Contract]
    programs: list[Program]
    invoice: Invoice
    items: int


def book_change(document: dict[str, Any]) -> None:
    """Prices at which small models come to amounts worth reading."""
    for by_precision in document["prices"].values():
        for precision in by_precision:
            by_precision[precision] = "31415926.535"


def month_run(cast: Cast, *, items: int, models: tuple[str, ...] = ("digits-small",)) -> Month:
    """Sell, run, miss, credit, close, invoice: each by the product's own services, at the wall clock."""
    now = timezone.now()
    scene = Scene(open_market(devices=2, change=book_change), cast, now=now - EARLIER)
    programs = [program for model in models for program in digits_programs(scene, model, "lpu")]
    contracts = [contract for program in programs for contract in _sold(scene, program, items)]
    _missed(scene, contracts[2], programs[0])
    grant_create(
        organisation=cast.organisation,
        amount=Decimal("0.05"),
        currency="EUR",
        reason="Welcome",
        expires_at=None,
        idempotency_key="welcome",
        actor=cast.admin,
        now=scene.now,
    )
    for contract in contracts:
        contract_close(contract_id=contract.id, now=now)
        contract.refresh_from_db()
        if contract.state == "active":
            contract_end(contract_id=contract.id, organisation=cast.organisation, actor=cast.owner, now=now)
    guarantees_credit_due(now=now)
    invoice = invoice_issue(organisation=cast.organisation, actor=cast.billing, now=timezone.now())
    return Month(scene, contracts, programs, invoice, items)


def _sold(scene: Scene, program: Program, items: int) -> list[Contract]:
    """Batch in full on the simulator, priority partly late on the host, a third of a quota."""
    cast, pool = scene.cast, scene.market.lpu
    measurement.host_measure(program_id=program.pk, pool_slug="host-cpu", now=scene.now)
    batch = scene.contract((program, items), klass="batch")
    _run(scene, batch, program, items, clock=timezone.now)
    priority = scene.contract((program, items), klass="priority", pool=scene.market.host, window=timedelta(hours=4))
    in_time, late = items // 2, items // 4
    # One job at once, the next by a worker that comes only three hours later.
    _run(scene, priority, program, in_time, clock=lambda: scene.now)
    _run(scene, priority, program, late, clock=timezone.now)
    quote = quote_create(
        organisation=cast.organisation,
        lines=Quota("float32", 1),
        klass="standard",
        pool=pool,
        actor=cast.engineer,
        window=(scene.now, scene.now + timedelta(hours=8)),
        now=scene.now,
    )
    quota = quote_accept(quote_id=quote.pk, organisation=cast.organisation, actor=cast.owner, now=scene.now)
    _run(scene, quota, program, items // 3, clock=timezone.now)
    return [batch, priority, quota]


def _submit(scene: Scene, contract: Contract, program: Program, items: int) -> Job:
    shape = tuple(program.inputs[0]["shape"])
    pictures = np.random.default_rng(items).random((items, *shape)).astype("float32")
    arrays = {program.inputs[0]["name"]: pictures}
    return dispatch.job_create(
        contract=contract, arrays=arrays, actor=scene.cast.engineer, now=scene.now, wanted=program.pk
    )


def _run(scene: Scene, contract: Contract, program: Program, items: int, *, clock: Callable[[], datetime]) -> None:
    """A job through real leases: offered when their time has come, executed by a worker with this clock."""
    job = _submit(scene, contract, program, items)
    while lease := Lease.objects.filter(stage__job=job, state__in=["planned", "offered"]).first():
        dispatch.leases_offer_due(now=max(clock(), lease.device_from))
        lease.refresh_from_db()
        assert lease_execute(lease_id=lease.pk, epoch=lease.epoch, host="here", clock=clock)
    dispatch.job_advance(job_id=job.pk, now=clock())
    job.refresh_from_db()
    assert job.state == JobState.DONE, job.problem


def _missed(scene: Scene, contract: Contract, program: Program) -> None:
    """Five workers in turn take a block and fall silent."""
    lease = Lease.objects.get(stage__job=_submit(scene, contract, program, 7))
    at = max(scene.now, lease.device_from)
    while lease.state != LeaseState.FAILED:
        dispatch.leases_offer_due(now=at)
        lease.refresh_from_db()
        dispatch.lease_take(lease_id=lease.pk, epoch=lease.epoch, host="gone", now=at)
        at += timedelta(minutes=1)
        assert dispatch.leases_reoffer_silent(now=at) == 1
        lease.refresh_from_db()
    assert lease.is_missed


class Reader:
    """What a person of the organisation gets from the product."""

    def __init__(self, month: Month) -> None:
        self.month, self.client = month, Client()
        self.client.force_login(month.scene.cast.billing)

    def page(self, path: str) -> Page:
        """A rendered page."""
        return Page(self.file(path).decode())

    def file(self, path: str) -> bytes:
        """A download, or the page's bytes."""
        answer = self.client.get(path, follow=True)
        assert answer.status_code == 200, f"{path}: {answer.status_code}"
        return b"".join(answer) if answer.streaming else answer.content


def month_read(month: Month, folder: Path) -> dict[str, Decimal]:
    """Compare quote, contract, portal, invoice page, paper, CSV, JSON and the cost export, figure by figure as they are
    read. Leaves the invoice and the book in `folder` for `takt verify`. Raises AssertionError; returns the headlines."""
    reader = Reader(month)
    said = json.loads(reader.file(f"/invoices/{month.invoice.pk}/invoice.json"))
    (folder / "invoice.json").write_text(json.dumps(said))
    (folder / "book.json").write_text(json.dumps(month.scene.market.book.document))
    for contract in month.contracts:
        _contract_read(reader, contract, said)
    _lines_read(reader, month.invoice, said)
    _totals_read(reader, month.invoice, said)
    _exports_read(reader, month.invoice, said)
    return {name: Decimal(said[name]) for name in ("net", "payable", "due")}


def _contract_read(reader: Reader, contract: Contract, said: dict[str, Any]) -> None:
    """The quote's page, paper and CSV, the contract's page and the portal say what the invoice compares."""
    (compared,) = [one for one in said["quoted_against_actual"] if one["contract"] == str(contract.pk)]
    quoted, actual = Decimal(compared["quoted"]), Decimal(compared["actual"])
    path = f"/quotes/{contract.quote_id}"
    assert money(reader.page(path).metrics["Maximum net price"][-1]) == quoted
    assert printed(paper_text(reader.file(f"{path}/quote.pdf")), "Net, worst case (held)") == quoted
    steps = table_of(reader.file(f"{path}/quote.csv").decode())
    assert exact_sum(Decimal(row["result"]) for row in steps if row["step"] == "amount") == quoted
    page = reader.page(f"/contracts/{contract.pk}")
    assert amounts(page.row("Total")) == [quoted, actual, actual - quoted]
    for days in (table for table in page.tables if "Billed operations" in table[0]):
        *rows, total = days[1:]
        assert exact_sum(amounts(row)[0] for row in rows) == amounts(total)[0] == actual
    on_invoice = [Decimal(line["amount"]) for line in said["lines"] if line["contract"] == str(contract.pk)]
    assert exact_sum(on_invoice) == actual
    assert exact_sum(Decimal(one["amount"]) for one in compared["named"]) == Decimal(compared["difference"])
    for place in ("/portal/contracts", f"/invoices/{reader.month.invoice.pk}"):
        rows = [amounts(row) for table in reader.page(place).tables if "Difference" in table[0] for row in table[1:]]
        assert [quoted, actual, actual - quoted] in rows, f"{place} does not compare contract {contract.pk}"


def _lines_read(reader: Reader, invoice: Invoice, said: dict[str, Any]) -> None:
    """Every line by its executions, exact amount and share: page, paper, CSV."""
    page = reader.page(f"/invoices/{invoice.pk}")
    paper = paper_text(reader.file(f"/invoices/{invoice.pk}/invoice.pdf"))
    steps = table_of(reader.file(f"/invoices/{invoice.pk}/invoice.csv").decode())
    shown = [row for table in page.tables if "Exact amount" in table[0] for row in table[1:] if row[0].isdigit()]
    rows = [*said["lines"], *said.get("adjustments", [])]
    assert len(shown) == len(rows)
    for line, cells in zip(rows, shown, strict=True):
        pair = [Decimal(line["amount"]), Decimal(line["share"])]
        assert amounts(cells)[-2:] == pair
        assert _paired(pair) in paper, f"line {line['number']} is not printed so"
        last = [row for row in steps if row["line"] == str(line["number"])][-1]
        assert Decimal(last["result"]) == pair[0]
        if "executions" in line:
            assert cells[2].split(" of ")[0] == f"{line['executions']:,}"
            assert last["executions"] == str(line["executions"])


def _paired(pair: list[Decimal]) -> str:
    """An exact amount and its share as they are printed side by side."""
    exact, share = f"{abs(pair[0]):,f}", f"{abs(pair[1]):,.2f}"
    whole, _, part = exact.partition(".")
    sign = "-" if pair[0] < 0 else ""
    mark = "-" if pair[1] < 0 else ""
    return f"{sign}€{whole}.{part.rstrip('0').ljust(2, '0')}{mark}€{share}"


def _totals_read(reader: Reader, invoice: Invoice, said: dict[str, Any]) -> None:
    page = reader.page(f"/invoices/{invoice.pk}")
    paper = paper_text(reader.file(f"/invoices/{invoice.pk}/invoice.pdf"))
    for label, key in (("Net, exact", "net"), ("Payable", "payable"), ("Total with tax", "due")):
        assert amounts(page.row(label)) == [Decimal(said[key])]
        assert printed(paper, label) == Decimal(said[key])
    assert money(page.metrics["Total"][0]) == Decimal(said["due"])
    portal = reader.page("/portal")
    used = [amount for line in said["lines"] for amount in [Decimal(line["amount"])]]
    assert money(portal.metrics["Month to date"][-1]) == exact_sum(used)
    (listed,) = [row for row in portal.rows(invoice.number) if row[0] == invoice.number]
    assert amounts(listed) == [Decimal(said["due"]), invoice.open]
    api = json.loads(reader.file(f"/api/v1/invoices/{invoice.pk}"))
    assert Decimal(api["due"]) == Decimal(said["due"])


def _exports_read(reader: Reader, invoice: Invoice, said: dict[str, Any]) -> None:
    """The cost export: every charge of the invoice, summing to what is payable, to the last digit."""
    rows = [row for row in table_of(reader.file("/portal/focus.csv").decode()) if row["InvoiceId"] == invoice.number]
    before_tax = [Decimal(row["BilledCost"]) for row in rows if row["ChargeCategory"] != "Tax"]
    assert exact_sum(before_tax) == Decimal(said["payable"])
    usage = [Decimal(row["BilledCost"]) for row in rows if row["ChargeCategory"] == "Usage"]
    assert exact_sum(usage) == exact_sum(Decimal(line["amount"]) for line in said["lines"])
