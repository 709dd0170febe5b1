"""Fixtures of the tests that kill things."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.utils import timezone

from tests.cast import Cast
from tests.dispatch.scene import Scene
from tests.faults.hosts import Fleet, fleet_in
from tests.sales.market import open_market


@pytest.fixture
def present(transactional_db: None, cast: Cast) -> Scene:
    """The market in the real present, with rows that other processes see."""
    return Scene(open_market(devices=2), cast, timezone.now())


@pytest.fixture
def fleet(transactional_db: None, tmp_path: Path) -> Iterator[Fleet]:
    """Worker hosts, each a real process in a folder of its own."""
    with fleet_in(tmp_path) as hosts:
        yield hosts
