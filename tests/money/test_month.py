"""Acceptance of a month: what people read in pages, papers and files is one set of numbers, and can be computed again."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from apps.cli.main import RIGHT, main
from apps.invoicing.models import CreditGrant
from apps.invoicing.reconciliation import reconcile_all
from tests.cast import Cast
from tests.dispatch.real import ROOT
from tests.money.month import month_read, month_run


@pytest.mark.django_db
def test_a_month_of_real_leases_reads_the_same_everywhere(cast: Cast, tmp_path: Path) -> None:
    month = month_run(cast, items=24)
    totals = month_read(month, tmp_path)
    assert totals["due"] > 0
    document = month.invoice.document
    assert {line["rating"]["terms"]["klass"] for line in document["lines"]} == {"batch", "priority", "standard"}
    assert sum("downgrade" in line for line in document["lines"]) == 1
    assert {one["kind"] for one in document["adjustments"]} == {"guarantee", "credit"}
    missed = CreditGrant.objects.get(kind="guarantee")
    drawn = next(line for line in document["lines"] if line["rating"]["terms"].get("form") == "quota")
    assert missed.amount == Decimal(drawn["amount"]) / drawn["executions"] * 7, "seven executions, not seven quotas"
    assert reconcile_all(cast.organisation).differences == []
    model = ROOT / "samples" / "digits-small.onnx"
    assert main(["verify", str(tmp_path / "invoice.json"), str(model), str(tmp_path / "book.json")]) == RIGHT
