"""A sample model all the way, with nothing put in its place: file, compile, quote, contract, job, usage, invoice, proof."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.cli.main import RIGHT, main
from apps.dispatch import services as dispatch
from apps.dispatch.execution import lease_execute
from apps.dispatch.models import JobState, Lease
from apps.invoicing.exports import invoice_json
from apps.invoicing.reconciliation import reconcile_all
from apps.invoicing.services import invoice_issue
from apps.ledger.models import UsageRow
from apps.sales.models import ContractState
from apps.sales.selectors import contract_usage
from apps.sales.services import contract_close
from tests.cast import Cast
from tests.dispatch.real import ROOT, digits_programs
from tests.dispatch.scene import Scene
from tests.pricing.rating.books import SHIPPED
from tests.sales.market import open_market

ITEMS = 24


@pytest.mark.django_db
def test_what_was_compiled_is_what_ran_is_what_is_billed(
    cast: Cast, tmp_path: Path, capsys: pytest.CaptureFixture[str], as_user: Callable[[User], Client]
) -> None:
    scene = Scene(open_market(devices=2), cast, now=timezone.now())
    (program,) = digits_programs(scene, "digits-small", "lpu")
    contract = scene.contract((program, ITEMS), klass="batch")
    shape = tuple(program.inputs[0]["shape"])
    pictures = np.random.default_rng(3).random((ITEMS, *shape)).astype("float32")
    job = dispatch.job_create(
        contract=contract, arrays={program.inputs[0]["name"]: pictures}, actor=cast.engineer, now=timezone.now()
    )
    while lease := Lease.objects.filter(stage__job=job, state__in=["planned", "offered"]).first():
        dispatch.leases_offer_due(now=max(timezone.now(), lease.device_from))
        lease.refresh_from_db()
        assert lease_execute(lease_id=lease.pk, epoch=lease.epoch, host="here", clock=timezone.now)
    dispatch.job_advance(job_id=job.pk, now=timezone.now())
    job.refresh_from_db()
    assert job.state == JobState.DONE

    assert sum(UsageRow.objects.values_list("quantity", flat=True)) == ITEMS
    assert {int(row.operations) for row in UsageRow.objects.all()} == {
        program.operations * row.quantity for row in UsageRow.objects.all()
    }
    assert contract_close(contract_id=contract.pk, now=timezone.now()).state == ContractState.USED
    invoice = invoice_issue(organisation=cast.organisation, actor=cast.billing, now=timezone.now())
    assert invoice.net == contract.net == Decimal(contract.quote.document["net"])
    assert contract_usage(contract).difference == 0
    assert reconcile_all(cast.organisation).differences == []

    page = as_user(cast.viewer).get(f"/invoices/{invoice.pk}").content.decode()
    for way in (
        f"/jobs/{job.pk}",
        f"/programs/{program.pk}",
        f"/contracts/{contract.pk}",
    ):  # from the line to its causes
        assert f'href="{way}"' in page

    paper = tmp_path / f"{invoice.number}.json"
    paper.write_text(invoice_json(invoice))
    assert main(["verify", str(paper), str(ROOT / "samples" / "digits-small.onnx"), str(SHIPPED)]) == RIGHT
    assert f"verified: {invoice.number}" in capsys.readouterr().out
