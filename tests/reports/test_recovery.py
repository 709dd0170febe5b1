"""The sweep of work that was asked for and lost."""

from __future__ import annotations

from datetime import timedelta

import pytest

from apps.reports.changes import Change
from apps.reports.models import WhatIf
from apps.reports.recovery import unfinished_sweep
from apps.reports.whatif import what_if_request
from tests.cast import Cast
from tests.sales.market import NOW, open_market


@pytest.mark.django_db
def test_work_that_cannot_be_carried_out_does_not_hold_up_the_rest(cast: Cast) -> None:
    open_market()
    broken, whole = (what_if_request(change=Change(), trace=None, asked_by=cast.admin, now=NOW) for _ in range(2))
    WhatIf.objects.filter(pk=broken.pk).update(
        change={"unknown": 1}, asked_at=NOW + timedelta(seconds=1)
    )  # listed first
    assert unfinished_sweep(now=NOW + timedelta(minutes=1)) == 1
    whole.refresh_from_db()
    assert whole.finished_at is not None
