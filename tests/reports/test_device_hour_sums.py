"""Device time kept by hours is the sum of its leases, whatever period is asked for."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from apps.reports.device_hour_check import device_hour_faults
from tests.cast import assemble
from tests.dispatch.scene import Scene
from tests.reports.test_device_hours import MONTH, ran, ran_by_leases
from tests.sales.market import CLOCK, NOW, open_market
from tests.tiers import some

MINUTE = 60 * CLOCK  # cycles


class Hours(TestCase):
    """A property over jobs of any length and periods of any ends."""

    @settings(max_examples=some(15), deadline=None)
    @given(
        st.lists(st.tuples(st.integers(1, 5), st.integers(1, 50)), min_size=1, max_size=4),
        st.lists(st.tuples(st.integers(0, 900), st.integers(1, 900)), min_size=1, max_size=6),
    )
    def test_a_period_is_what_its_leases_ran_within_it(
        self, jobs: list[tuple[int, int]], periods: list[tuple[int, int]]
    ) -> None:
        scene = Scene(open_market(devices=2), assemble())
        for items, minutes in jobs:  # leases that end within their hour, and such that reach over hours
            program = scene.program(interval=minutes * MINUTE + 7, latency=minutes * MINUTE + 7)
            scene.run(scene.job(scene.contract((program, items), window=timedelta(hours=30)), items))
        for offset, length in periods:
            start = NOW + timedelta(minutes=offset, microseconds=offset)
            assert ran(start, start + timedelta(minutes=length)) == ran_by_leases(
                start, start + timedelta(minutes=length)
            )
        assert ran(MONTH, MONTH + timedelta(days=40)) == ran_by_leases(MONTH, MONTH + timedelta(days=40))
        assert device_hour_faults(scene.cast.organisation.pk, limit=9) == []
