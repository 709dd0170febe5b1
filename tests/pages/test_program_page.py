"""The report page of a program that was really compiled: what stands there is what the compiler counted."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from hashlib import sha256

import pytest
from django.test import Client

from apps import figures
from apps.accounts.models import User
from apps.compilation.models import Program
from tests.cast import Cast
from tests.compilation.helpers import compiled
from tests.sales.market import open_market
from tests.sales.tenancy import a_contract_of

Sign = Callable[[User], Client]


@pytest.fixture
def program(cast: Cast) -> Program:
    return compiled(cast, "digits-small")


def test_the_headline_is_what_the_program_counts(cast: Cast, as_user: Sign, program: Program) -> None:
    text = as_user(cast.viewer).get(f"/programs/{program.pk}").content.decode()
    assert figures.cycles_format(program.latency_cycles) in text
    assert figures.count_format(program.operations) in text
    assert figures.bytes_format(program.resources["storage"]["total"]) in text
    assert 'class="tag tag-ok"' in text


def test_instructions_that_are_streamed_take_no_memory_on_the_chip(cast: Cast, as_user: Sign) -> None:
    """The page, the list of programs and the comparison count as the command's report does."""
    program = compiled(cast, "digits-small", target="edge")
    client, storage = as_user(cast.viewer), program.resources["storage"]
    headline = client.get(f"/programs/{program.pk}/download/report.json").json()["headline"]
    assert headline["memory_used"] == storage["total"] - storage["instructions"] < storage["total"]
    page = client.get(f"/programs/{program.pk}")
    assert page.context["headline"]["storage"] == page.context["fits"][0].needs == headline["memory_used"]
    assert sum(part["bytes"] for part in page.context["storage"]) == headline["memory_used"]
    text = page.content.decode()
    assert f"{figures.count_format(headline['memory_used'])} bytes" in text
    assert f"{figures.bytes_format(storage['instructions'])} of instructions are streamed from external memory" in text
    listed = client.get(f"/versions/{program.model_version.pk}").content.decode()
    assert f'data-value="{headline["memory_used"]}"' in listed
    other = compiled(cast, "digits-small")
    compared = client.get(f"/programs/compare?p={program.pk}&p={other.pk}").content.decode()
    assert figures.bytes_format(headline["memory_used"]) in compared
    assert "are streamed" not in client.get(f"/programs/{other.pk}").content.decode()


def test_the_memory_map_and_its_words_agree(cast: Cast, as_user: Sign, program: Program) -> None:
    response = as_user(cast.viewer).get(f"/programs/{program.pk}")
    drawn, text = response.context["map"], response.content.decode()
    tops = [address + size - drawn["base"] for _, address, size, _, _ in drawn["buffers"]]
    assert drawn["highest"] == max(tops) >= drawn["peak"]["bytes"]
    assert f"at most {figures.bytes_format(drawn['peak']['bytes'])} in use at once" in text
    assert f"up to the address {figures.bytes_format(drawn['highest'])}" in text
    assert "<strong>highest address in use</strong>" in text


def test_without_a_price_book_the_page_says_not_priced(cast: Cast, as_user: Sign, program: Program) -> None:
    text = as_user(cast.engineer).get(f"/programs/{program.pk}").content.decode()
    assert "not priced" in text
    assert "No price book is in force" in text


def test_its_price_and_the_price_of_operations_read_as_everywhere(cast: Cast, as_user: Sign, program: Program) -> None:
    open_market(change=lambda book: book["prices"]["lpu"].update(float32="0.008123456789"))
    text = as_user(cast.engineer).get(f"/programs/{program.pk}").content.decode()
    assert "x €\u202f8.123 per thousand tera-operations" in text
    assert "Price book 1: €\u202f8.123 per thousand tera-operations in float32 on lpu." in text


def test_the_csv_sums_to_the_resources(cast: Cast, as_user: Sign, program: Program) -> None:
    answer = as_user(cast.engineer).get(f"/programs/{program.pk}/download/operations.csv")
    table = list(csv.DictReader(io.StringIO(answer.content.decode())))
    total = table[-1]
    assert int(total["cycles"]) == program.latency_cycles
    assert int(total["operations"]) == program.operations
    assert int(total["storage"]) == program.resources["storage"]["total"]
    assert sum(int(row["read"]) for row in table[:-1]) == program.resources["memory"]["read"]


def test_the_timeline_stays_inside_the_latency(cast: Cast, as_user: Sign, program: Program) -> None:
    client = as_user(cast.engineer)
    whole = client.get(f"/programs/{program.pk}/timeline").json()
    assert whole["end"] == program.latency_cycles
    assert all(0 <= bar[1] < bar[2] <= program.latency_cycles for bar in whole["bars"])
    part = client.get(f"/programs/{program.pk}/timeline?from=0&to=20").json()
    assert all(bar[1] < 20 for bar in part["bars"])
    assert client.get(f"/programs/{program.pk}/timeline?from=x&to=-1").json()["end"] == program.latency_cycles


def test_the_graph_holds_every_operation_once(cast: Cast, as_user: Sign, program: Program) -> None:
    client = as_user(cast.engineer)
    report = json.loads(client.get(f"/programs/{program.pk}/download/report.json").content)
    drawn = client.get(f"/programs/{program.pk}/graph?all=1").json()
    wanted = [row["index"] for row in report["per_operation"] if row["start"] is not None]
    assert sorted(row for node in drawn["nodes"] for row in node["rows"]) == wanted


def test_an_unknown_file_is_not_found(cast: Cast, as_user: Sign, program: Program) -> None:
    assert as_user(cast.engineer).get(f"/programs/{program.pk}/download/secrets.txt").status_code == 404


def test_the_dashboard_shows_the_next_step(cast: Cast, as_user: Sign) -> None:
    client = as_user(cast.engineer)
    assert 'class="is-next"' in client.get("/").content.decode()
    compiled(cast, "digits-small")
    text = client.get("/").content.decode()
    assert text.count('class="is-done"') == 2
    assert "digits-small" in text.lower()


def test_the_dashboard_lists_contracts_by_number(cast: Cast, as_user: Sign) -> None:
    contract = a_contract_of(cast)
    contract.name = "Nightly letters"
    contract.save(update_fields=["name"])
    text = as_user(cast.viewer).get("/").content.decode()
    assert f'href="/contracts/{contract.pk}">{contract.reference}</a> Nightly letters' in text


def test_an_administrator_without_an_organisation_is_led_to_the_platform(cast: Cast, as_user: Sign) -> None:
    text = as_user(cast.admin).get("/", follow=True).content.decode()
    assert 'href="/capacity"' in text
    assert 'href="/models"' not in text


def test_the_binary_is_sent_in_pieces(cast: Cast, as_user: Sign, program: Program) -> None:
    client = as_user(cast.engineer)
    for path in (f"/programs/{program.pk}/download/program.bin", f"/api/v1/programs/{program.pk}/binary"):
        answer = client.get(path)
        assert answer.streaming, "a large one must not be in memory at once"
        assert sha256(answer.getvalue()).hexdigest() == program.digest
        assert int(answer["Content-Length"]) == program.binary_bytes
