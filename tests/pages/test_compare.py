"""Programs side by side, and the parts of a report that narrow precisions and bounds add."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client

from apps import figures
from apps.accounts.models import User
from apps.compilation import selectors
from apps.compilation.models import Program
from apps.pages.report import compare, rows
from tests.cast import Cast
from tests.compilation.helpers import NOW, ask, run_remembered, sample_of

Sign = Callable[[User], Client]


@pytest.fixture
def pair(cast: Cast) -> list[Program]:
    version = sample_of(cast, "digits-large")
    jobs = [ask(cast, version), ask(cast, version, precision="int8")]
    return [selectors.programs_of_job(run_remembered(job))[0] for job in jobs]


@pytest.mark.django_db
def test_each_figure_stands_beside_the_baselines(cast: Cast, as_user: Sign, pair: list[Program]) -> None:
    whole, narrow = pair
    table = {row.title: row for row in compare.table(pair, now=NOW)}
    memory = table["Memory"]
    assert [cell.text for cell in memory.cells] == [
        figures.bytes_format(one.resources["storage"]["total"]) for one in pair
    ]
    assert memory.cells[0].change == ""
    assert memory.cells[1].change.endswith(" less")
    assert memory.cells[1].tone == "ok"
    assert [cell.text for cell in table["Precision"].cells] == ["float32", "int8"]
    assert not table["Processor"].differs
    assert table["Signal-to-noise ratio against float32"].cells[0].text == "is float32"
    page = as_user(cast.viewer).get(f"/programs/compare?p={narrow.pk}&p={whole.pk}").content.decode()
    heads = re.findall(r'<th><a href="/programs/([0-9a-f-]{36})"', page)
    assert heads == [str(narrow.pk), str(whole.pk)]


@pytest.mark.django_db
def test_the_share_of_peak_is_operations_over_what_the_planes_could_do(pair: list[Program]) -> None:
    whole, narrow = pair
    share = compare.share_of_peak(whole)
    assert share == pytest.approx(whole.operations / (whole.interval_cycles * 4 * 2 * 160 * 160))
    assert compare.share_of_peak(narrow) == pytest.approx(
        narrow.operations / (narrow.interval_cycles * 4 * 2 * 320 * 320)
    )


@pytest.mark.django_db
def test_the_report_says_what_fewer_bits_lose(cast: Cast, as_user: Sign, pair: list[Program]) -> None:
    client = as_user(cast.viewer)
    whole, narrow = (client.get(f"/programs/{one.pk}").content.decode() for one in pair)
    assert 'id="accuracy"' not in whole
    (row,) = rows.accuracy_rows(pair[1].accuracy)
    assert row["snr"] in narrow
    assert "generated; upload typical inputs" in narrow
    ranges = client.get(f"/programs/{pair[1].pk}/download/ranges.json")
    assert ranges.json()["seeded"] is True
    assert client.get(f"/programs/{pair[0].pk}/download/ranges.json").status_code == 404


@pytest.mark.django_db
@pytest.mark.parametrize("query", ["p=nothing", "p=00000000-0000-4000-8000-000000000000"])
def test_what_is_not_ones_own_cannot_be_compared(cast: Cast, as_user: Sign, query: str) -> None:
    assert as_user(cast.viewer).get(f"/programs/compare?{query}").status_code == 404


def test_a_bound_stands_beside_what_was_executed() -> None:
    bound = {"cycles": 200, "operations": 90, "memory": {"read": 10, "written": 0}}
    seen = {"cycles": 150, "operations": 45, "memory": {"read": 5, "written": 0}}
    found = {row["title"]: row for row in rows.executed_rows({"resources": bound}, seen)}
    assert (found["Cycles"]["bound"], found["Cycles"]["executed"], found["Cycles"]["part"]) == (
        200,
        150,
        pytest.approx(0.75),
    )
    assert found["Bytes written on the chip"]["part"] == 0
    assert rows.executed_rows({"resources": bound}, {}) == []


DECIBELS = [(31.26, "31.3 dB"), (999.0, "no difference"), (-999.0, "not a number"), (None, "not measured")]


@pytest.mark.parametrize(("value", "text"), DECIBELS)
def test_a_ratio_is_written_in_decibels(value: float | None, text: str) -> None:
    assert rows.decibels_text(value).replace(figures.NARROW_SPACE, " ") == text
