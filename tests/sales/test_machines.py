"""Documents name the machine that ran; one definition each of device time; weights of branches are counted."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from io import BytesIO
from types import SimpleNamespace
from typing import Any
from typing import cast as typed

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from pypdf import PdfReader

from apps.dispatch.models import Lease
from apps.dispatch.selectors import lease_device_time
from apps.fleet.models import PoolKind
from apps.invoicing.exports import invoice_pdf
from apps.invoicing.services import invoice_issue
from apps.registry.inspection.report import parameters_of
from apps.sales.exports import line_machine, line_title
from apps.sales.services import quote_accept, quote_create
from tests.cast import Cast
from tests.sales.market import NOW, Market
from tests.sales.test_forms import SOON, run


@pytest.mark.django_db
def test_a_line_names_the_pool_and_an_older_one_its_class(cast: Cast, market: Market, as_user: Any) -> None:
    program = market.program(cast.organisation, cast.engineer, name="seen")
    quote = quote_create(
        organisation=cast.organisation, lines=[(program, 1000)], klass="standard", pool=market.lpu, actor=None, now=NOW
    )
    contract = quote_accept(quote_id=quote.id, organisation=cast.organisation, actor=cast.owner, now=NOW)
    run(contract, program, 1000)
    invoice = invoice_issue(organisation=cast.organisation, actor=None, now=SOON + timedelta(days=1))
    (line,) = invoice.document["lines"]
    assert line["pool"] == {"slug": "lpu-a", "name": "lpu-a", "processor_class": "lpu"}
    text = " ".join(page.extract_text() for page in PdfReader(BytesIO(invoice_pdf(invoice))).pages)
    assert "seen on lpu-a (lpu), standard" in " ".join(text.split())
    client = as_user(cast.owner)
    assert "on lpu-a (lpu), standard" in client.get(f"/invoices/{invoice.pk}").content.decode()
    assert "on lpu-a (lpu)" in client.get(f"/contracts/{contract.pk}").content.decode()

    older = {key: value for key, value in line.items() if key != "pool"}
    assert line_title(older) == "seen on lpu, standard"
    # Compiled for a processor, run on a host: the document of the sale says the host.
    older["rating"] = {**older["rating"], "terms": {**older["rating"]["terms"], "processor_class": "host"}}
    assert line_machine(older) == "host"


def test_a_leases_device_time_is_what_revenue_counts() -> None:
    """Five executions every 24,000 cycles at 900 MHz keep the device for 133.3 us; the last result is there after 201."""
    pool = SimpleNamespace(is_host=False, kind=PoolKind.SIMULATED)
    lease = SimpleNamespace(
        device=SimpleNamespace(pool=pool),
        stage=SimpleNamespace(clock_hz=900_000_000),
        first_cycle=0,
        next_cycle=120_000,
        device_from=NOW,
        device_to=NOW + timedelta(microseconds=201),
    )
    assert lease_device_time(typed("Lease", lease)) == Fraction(120_000, 900_000_000)
    pool.is_host = True
    assert lease_device_time(typed("Lease", lease)) == Fraction(201, 10**6)


def test_weights_of_branches_and_of_branches_in_them_are_counted() -> None:
    def branch(size: int, inner: list[Any] | None = None) -> Any:
        weight = numpy_helper.from_array(np.zeros(size, np.float32), "w")
        nodes = [*(inner or []), helper.make_node("Identity", ["w"], ["y"])]
        output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [size])
        return helper.make_graph(nodes, "branch", [], [output], [weight])

    deep = helper.make_node("If", ["c"], ["z"], then_branch=branch(7), else_branch=branch(11))
    node = helper.make_node("If", ["c"], ["out"], then_branch=branch(100, [deep]), else_branch=branch(1000))
    given = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, None)
    own = numpy_helper.from_array(np.zeros(3, np.float32), "own")
    model = helper.make_model(helper.make_graph([node], "main", [given], [out], [own]))
    assert parameters_of(model) == 3 + 100 + 1000 + 7 + 11
