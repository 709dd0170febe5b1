"""Jobs over the API: the whole way without a browser."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone

from apps.accounts.models import ApiToken, User
from apps.accounts.roles import Scope
from apps.dispatch.models import Job
from apps.ledger.chain import chain_verify
from apps.ledger.models import UsageRow
from apps.registry.feeds import arrays_pack, arrays_unpack
from apps.sales.models import Contract
from tests.cast import Cast
from tests.dispatch.scene import Scene
from tests.sales.market import open_market

SignIn = Callable[[User], Client]


@pytest.fixture
def present(cast: Cast) -> Scene:
    return Scene(open_market(devices=2), cast, timezone.now())


@pytest.fixture
def client(present: Scene, as_user: SignIn) -> Client:
    return as_user(present.cast.engineer)


@pytest.fixture
def contract(present: Scene) -> Contract:
    return present.contract((present.program(operations=200_000_000), 100))


def post_json(client: Client, contract: Contract, inputs: Any, **headers: str) -> Any:
    body = {"contract": str(contract.pk), "inputs": inputs}
    return client.post("/api/v1/jobs", json.dumps(body), content_type="application/json", headers=headers)


def post_npz(client: Client, contract: Contract, data: bytes, **headers: str) -> Any:
    file = SimpleUploadedFile("inputs.npz", data)
    return client.post("/api/v1/jobs/npz", {"contract": str(contract.pk), "inputs": file}, headers=headers)


def test_a_job_is_submitted_as_json_run_and_its_outputs_fetched(
    present: Scene, client: Client, contract: Contract
) -> None:
    response = post_json(client, contract, {"x": [[[1, 2, 3, 4]], [[5, 6, 7, 8]], [[1, 1, 1, 1]]]})
    assert response.status_code == 201, response.content
    made = response.json()
    assert (made["state"], made["items"], made["blocks_total"], made["outputs"]) == ("queued", 3, 2, None)
    assert made["starts_at"] is not None
    assert client.get(f"/api/v1/jobs/{made['id']}/outputs").status_code == 409
    present.run(Job.objects.get(pk=made["id"]))
    done = client.get(f"/api/v1/jobs/{made['id']}").json()
    assert (done["state"], done["blocks_done"], done["executions_done"]) == ("done", 2, 3)
    assert done["cost"] == done["quoted"] != "0"
    assert [one["name"] for one in done["segments"]] == ["Queued", "Running", "Billed"]
    data = b"".join(client.get(done["outputs"]).streaming_content)  # type: ignore[attr-defined]
    assert arrays_unpack(data)["y"].shape == (3, 1, 2)
    blocks = client.get(f"/api/v1/jobs/{made['id']}/blocks").json()
    assert [(one["from_item"], one["count"], one["state"]) for one in blocks] == [(0, 2, "done"), (2, 1, "done")]


def test_the_key_that_submits_a_job_stands_on_its_usage(
    present: Scene, client: Client, contract: Contract, as_token: Callable[..., Client]
) -> None:
    script = as_token(present.cast.engineer, present.cast.organisation, Scope.RUN)
    for one in (script, client):
        present.run(Job.objects.get(pk=post_json(one, contract, {"x": [[1, 2, 3, 4]]}).json()["id"]))
    keys = set(UsageRow.objects.values_list("token_id", flat=True))
    assert keys == {ApiToken.objects.get().pk, None}
    assert chain_verify(present.cast.organisation.pk).intact


def test_a_job_is_submitted_as_npz(client: Client, contract: Contract) -> None:
    response = post_npz(client, contract, arrays_pack({"x": np.ones((7, 4), "float32")}))
    assert response.status_code == 201, response.content
    assert response.json()["items"] == 7


def test_the_same_key_makes_one_job_and_another_file_under_it_is_refused(client: Client, contract: Contract) -> None:
    data = arrays_pack({"x": np.ones((7, 4), "float32")})
    first, again = (post_npz(client, contract, data, **{"Idempotency-Key": "k1"}) for _ in range(2))
    assert first.json()["id"] == again.json()["id"]
    assert Job.objects.count() == 1
    other = post_npz(client, contract, arrays_pack({"x": np.ones((8, 4), "float32")}), **{"Idempotency-Key": "k1"})
    assert other.status_code == 409
    one, two = (post_json(client, contract, {"x": [[1, 2, 3, 4]]}, **{"Idempotency-Key": "k2"}) for _ in range(2))
    assert one.json()["id"] == two.json()["id"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not an archive",
        b"PK\x03\x04 but damaged",
        arrays_pack({"z": np.ones((2, 4))}),
        arrays_pack({"x": np.ones(3)}),
    ],
)
def test_inputs_that_cannot_be_used_are_a_problem_with_sentences_and_leave_nothing(
    client: Client, contract: Contract, data: bytes
) -> None:
    response = post_npz(client, contract, data)
    assert response.status_code == 422
    assert response["Content-Type"] == "application/problem+json"
    assert all(error["message"].endswith(".") for error in response.json()["errors"])
    assert Job.objects.count() == 0


def test_a_strangers_contract_is_not_there(present: Scene, as_user: SignIn, contract: Contract) -> None:
    response = post_json(as_user(present.cast.stranger), contract, {"x": [[1, 2, 3, 4]]})
    assert response.status_code == 404
    assert "no contract" in response.json()["detail"]


def test_jobs_are_listed_newest_first_by_state_and_contract(present: Scene, client: Client, contract: Contract) -> None:
    older = present.run(present.job(contract, 2))
    present.pass_time(seconds=1)
    newer = present.job(contract, 3)
    rows = client.get("/api/v1/jobs").json()["results"]
    assert [row["id"] for row in rows] == [str(newer.pk), str(older.pk)]
    assert [(row["blocks_done"], row["blocks_total"]) for row in rows] == [(0, 2), (1, 1)]
    assert [row["id"] for row in client.get("/api/v1/jobs?state=done").json()["results"]] == [str(older.pk)]
    assert len(client.get(f"/api/v1/jobs?contract={contract.pk}").json()["results"]) == 2
    assert client.get("/api/v1/jobs?state=lost").status_code == 422


def test_cancelling_over_the_api_twice_is_a_conflict(present: Scene, client: Client, contract: Contract) -> None:
    job = present.job(contract, 3)
    assert client.post(f"/api/v1/jobs/{job.pk}/cancel").json()["state"] == "cancelled"
    assert client.post(f"/api/v1/jobs/{job.pk}/cancel").status_code == 409


def test_the_list_asks_the_database_the_same_number_of_questions_however_long_it_is(
    present: Scene, client: Client, contract: Contract, django_assert_max_num_queries: Any
) -> None:
    for _ in range(12):
        present.job(contract, 1)
    client.get("/jobs")
    with django_assert_max_num_queries(25):
        assert client.get("/jobs").status_code == 200


def test_a_npy_file_serves_a_program_of_one_input(client: Client, contract: Contract) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.ones((2, 1, 4), "float32"))
    assert post_npz(client, contract, buffer.getvalue()).json()["items"] == 2
