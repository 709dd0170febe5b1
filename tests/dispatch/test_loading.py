"""What was reserved for loading is what runs: a window begins with it, and holds all that was bought beside it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from apps.dispatch import services
from apps.dispatch.devicetime import cursor_loaded
from apps.dispatch.models import Job, JobStage, Lease
from apps.sales.models import Contract
from apps.timetable.models import Window
from tests.cast import assemble
from tests.dispatch.scene import Scene
from tests.sales.market import open_market
from tests.sales.test_loading import loaded
from tests.tiers import some


def leases(job: Job) -> list[Lease]:
    return list(Lease.objects.filter(stage__job=job).select_related("stage").order_by("first_cycle"))


def windows(contract: Contract) -> set[object]:
    return set(Window.objects.filter(reservation_id=contract.reservation_id).values_list("pk", "period"))


class Reserved(TestCase):
    @settings(max_examples=some(12), deadline=None)
    @given(st.integers(0, 10**9), st.integers(1, 10**7), st.integers(0, 10**6), st.integers(1, 600), st.integers(0, 3))
    def test_a_contract_runs_in_its_own_windows_behind_its_load(
        self, load: int, interval: int, more: int, bought: int, cuts: int
    ) -> None:
        """In one job or several: the program is loaded once, and no time is taken beside what was reserved."""
        scene = Scene(open_market(), assemble())
        program = loaded(scene.program(interval=interval, latency=interval + more), load)
        contract = scene.contract((program, bought))
        reserved, left = windows(contract), bought
        for part in range(min(cuts, bought - 1), -1, -1):
            items = left if part == 0 else max(1, left // 3)
            job = scene.job(contract, items)
            left -= items
        assert windows(contract) == reserved
        found = list(Lease.objects.filter(stage__job__contract=contract).order_by("first_cycle"))
        assert found[0].first_cycle == load
        for one, following in pairwise(found):
            assert following.first_cycle == one.next_cycle, "the program is on the device already"
        assert (left, job.state) == (0, "queued")


class Before(TestCase):
    def test_what_was_sold_without_loading_runs_without(self) -> None:
        scene = Scene(open_market(), assemble())
        program = scene.program(interval=10**6, latency=10**6)
        contract = scene.contract((program, 50))
        reserved = windows(contract)
        loaded(program, 10**9)
        job = scene.job(contract, 50)
        assert windows(contract) == reserved
        assert (JobStage.objects.get(job=job).load_cycles, leases(job)[0].first_cycle) == (0, 0)


class Several(TestCase):
    def test_the_second_program_is_loaded_when_the_first_has_drained(self) -> None:
        scene = Scene(open_market(), assemble())
        one, two = (loaded(scene.program(interval=10**6, latency=10**6), cycles) for cycles in (3 * 10**6, 5 * 10**6))
        contract = scene.contract((one, 4), (two, 4))
        reserved = windows(contract)
        first = scene.job(contract, 4)
        arrays = {"x": np.zeros((4, 1, 4), "float32")}
        second = services.job_create(
            contract=contract, wanted=two.pk, arrays=arrays, actor=scene.cast.engineer, now=scene.now
        )
        assert windows(contract) == reserved, "both loads were reserved"
        assert (leases(first)[0].first_cycle, leases(second)[0].first_cycle) == (
            3 * 10**6,
            3 * 10**6 + 4 * 10**6 + 5 * 10**6,
        )


@given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99), st.booleans(), st.booleans())
def test_nothing_issues_before_its_program_is_there(
    cursor: int, now: int, load: int, is_loaded: bool, is_known: bool
) -> None:
    found = cursor_loaded(cursor, now, load, is_loaded=is_loaded, is_known=is_known)
    assert found >= now
    if is_loaded:
        assert found == max(cursor, now)
    elif is_known:
        assert found == max(load, now), "it was loaded when the window began"
    else:
        assert found == max(cursor, now) + load
