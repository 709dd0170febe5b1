"""The judge of `benchmarks.faults --stack` bites: what is lost, doubled or answered badly is named."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from benchmarks import outage_customer
from benchmarks.outage_customer import Customer, Untrue
from benchmarks.outages import MADE, lost_or_doubled


class Listed(Customer):
    """A product that lists these ids."""

    there: dict[str, list[str]]

    def rows(self, path: str) -> list[dict[str, Any]]:
        kind = next(one for one, listed in MADE.items() if listed == path)
        return [{"id": pk} for pk in self.there.get(kind, [])]


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (["a", "b"], []),
        (["a"], ["1 accepted jobs are lost: ['b']"]),
        (["a", "b", "c"], ["1 jobs were made that nobody was told of: ['c']"]),
        (["a", "b", "b"], ["jobs listed twice"]),
    ],
)
def test_what_is_lost_or_made_twice_is_named(there: list[str], said: list[str]) -> None:
    customer = Listed("", "")
    customer.kept, customer.there = {"job": ["a", "b"]}, {"job": there}
    assert lost_or_doubled(customer) == said


class Answers(BaseHTTPRequestHandler):
    """503 without a word of when, then 500."""

    statuses: list[int]

    def do_GET(self) -> None:
        self.send_response(self.statuses.pop(0))
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Silence."""


@pytest.fixture
def server() -> Iterator[str]:
    Answers.statuses = [503, 500]
    with HTTPServer(("127.0.0.1", 0), Answers) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{found.server_port}"
        found.shutdown()


def test_a_refusal_without_retry_after_and_a_500_are_untrue(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage_customer, "PAUSE", 0.0)
    customer = Customer(server, "token")
    with pytest.raises(Untrue, match="500"):
        customer.ask("GET", "/x")
    assert [one.split(":")[1].split()[0] for one in customer.untrue] == ["503", "500"]
    assert customer.refused == {"503": 1}
