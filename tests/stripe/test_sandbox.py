"""The sandbox of `make run`."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.collection.gateway import client_make
from bin.sandbox import sandbox_wanted
from bin.services import ServiceError
from tests.stripe.double.keeping import loaded, saved
from tests.stripe.double.server import running
from tests.stripe.double.store import Store


def test_what_the_sandbox_holds_is_there_the_next_time(tmp_path: Path) -> None:
    store, options = Store(), {"idempotency_key": "k"}
    with running(store) as url:
        first = client_make(api_key="sk_test_sandbox", base=url).v1.customers.create({"name": "A"}, options)  # type: ignore[arg-type]
    saved(store, tmp_path / "state.json")
    again = loaded(tmp_path / "state.json")
    with running(again) as url:
        client = client_make(api_key="sk_test_sandbox", base=url)
        assert client.v1.customers.retrieve(first.id).name == "A"
        assert client.v1.customers.create({"name": "A"}, options).id == first.id  # type: ignore[arg-type]
        second = client.v1.customers.create({"name": "B"})
        assert [one.data.object["id"] for one in client.v1.events.list().data] == [second.id, first.id]
    assert loaded(tmp_path / "none.json").objects == {}


def test_the_sandbox_is_only_started_when_it_is_asked_for() -> None:
    assert sandbox_wanted({}, port=8000) is None
    found = sandbox_wanted({"TAKT_STRIPE": "sandbox"}, port=8000)
    assert found is not None
    assert found.settings()["STRIPE_API_BASE"] == "http://127.0.0.1:8001"
    with pytest.raises(ServiceError, match="not both"):
        sandbox_wanted({"TAKT_STRIPE": "sandbox", "STRIPE_API_KEY": "sk_live_1"}, port=8000)
    with pytest.raises(ServiceError, match="can be sandbox"):
        sandbox_wanted({"TAKT_STRIPE": "yes"}, port=8000)
