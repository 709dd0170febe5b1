"""Uploads: pieces, resuming, refusals, and that nothing of what was refused or given up stays."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from threading import Barrier, Thread

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from pytest_django import Settings

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.registry import services
from apps.registry.models import ModelVersion, Upload
from tests.cast import Cast, assemble
from tests.registry import models
from tests.registry.helpers import NOW, check_all, nothing_is_left, post, stored_files, upload

AsUser = Callable[[User], Client]


@pytest.mark.parametrize(("make", "kind"), models.HOSTILE.values(), ids=models.HOSTILE.keys())
def test_the_api_refuses_each_hostile_file_and_keeps_nothing_and_the_page_says_the_same_in_words(
    cast: Cast, as_user: AsUser, make: Callable[[], bytes], kind: str
) -> None:
    client = as_user(cast.engineer)
    answer = upload(client, make())
    assert answer.status_code == 422
    assert answer["Content-Type"] == "application/problem+json"
    problem = answer.json()
    assert kind in [error["kind"] for error in problem["errors"]]
    assert problem["detail"].startswith(problem["errors"][0]["message"])
    assert nothing_is_left()
    file = SimpleUploadedFile("net.onnx", make())
    answer = client.post("/models/upload", {"file": file})
    if answer.status_code == 302:
        assert "number 1 in the queue" in client.get(answer.url).content.decode()
        check_all()
        answer = client.get(answer.url)
    assert answer.status_code == 422
    text = answer.content.decode().replace("&#x27;", "'").replace("&gt;", ">")
    assert all(error["message"] in text and error["remedy"] in text for error in problem["errors"])
    assert nothing_is_left()


def test_a_file_said_to_have_three_gigabytes_is_refused_before_a_byte_is_sent(cast: Cast, as_user: AsUser) -> None:
    answer = upload(as_user(cast.engineer), models.small(), size=3 * 2**30)
    assert answer.status_code == 413
    assert answer["Content-Type"] == "application/problem+json"
    assert nothing_is_left()


def test_a_good_file_becomes_a_version_and_its_pieces_go(cast: Cast, as_user: AsUser) -> None:
    data = models.sample()
    answer = upload(as_user(cast.engineer), data)
    assert answer.status_code == 201
    version = ModelVersion.objects.get(pk=answer.json()["id"])
    assert version.sha256 == hashlib.sha256(data).hexdigest()
    assert (version.model.name, version.number, version.opset) == ("net", 1, 17)
    assert Upload.objects.get().state == Upload.State.READY
    assert stored_files() == [f"models/{cast.organisation.pk}/{version.sha256}.onnx"]


def test_the_same_bytes_are_kept_once(cast: Cast, as_user: AsUser) -> None:
    client = as_user(cast.engineer)
    first, second = upload(client, models.small()), upload(client, models.small())
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]
    announced = post(
        client, "/uploads", {"filename": "x", "size": 5, "sha256": hashlib.sha256(models.small()).hexdigest()}
    )
    assert announced.status_code == 409
    assert announced.json()["errors"][0]["version_id"] == first.json()["id"]
    assert len(stored_files()) == 1


def test_other_bytes_under_the_same_name_are_the_next_version(cast: Cast, as_user: AsUser) -> None:
    client = as_user(cast.engineer)
    numbers = [upload(client, models.small(seed)).json()["number"] for seed in (1, 2, 3)]
    assert numbers == [1, 2, 3]


def test_an_upload_resumes_where_it_stopped(cast: Cast, as_user: AsUser) -> None:
    client, data = as_user(cast.engineer), models.sample()
    pk = post(client, "/uploads", {"filename": "net.onnx", "size": len(data)}).json()["id"]

    def put(offset: int, piece: bytes) -> int:
        path = f"/api/v1/uploads/{pk}/chunks/{offset}"
        return client.put(path, piece, content_type="application/octet-stream").status_code

    assert put(0, data[:1000]) == 200
    assert put(0, data[:1000]) == 200, "a repeated piece does no harm"
    assert put(5000, data[5000:]) == 409, "a gap is refused"
    assert client.get(f"/api/v1/uploads/{pk}").json()["received"] == 1000
    assert post(client, f"/uploads/{pk}/complete").status_code == 409
    assert client.post(f"/api/v1/uploads/{pk}/complete", content_type="application/json").status_code == 409, (
        "without a body"
    )
    assert put(1000, data[1000:]) == 200
    assert post(client, f"/uploads/{pk}/complete", {"sha256": hashlib.sha256(data).hexdigest()}).status_code == 202
    assert put(0, data[:1000]) == 409, "what is in line takes no pieces"
    check_all()
    assert post(client, f"/uploads/{pk}/complete").status_code == 201


def test_a_damaged_piece_and_a_damaged_file_are_refused(cast: Cast, as_user: AsUser) -> None:
    client, data = as_user(cast.engineer), models.small()
    pk = post(client, "/uploads", {"filename": "net.onnx", "size": len(data)}).json()["id"]
    path = f"/api/v1/uploads/{pk}/chunks/0"
    bad = client.put(path, data, content_type="application/octet-stream", headers={"Upload-Chunk-SHA256": "0" * 64})
    assert bad.status_code == 422
    assert client.put(path, data, content_type="application/octet-stream").status_code == 200
    assert post(client, f"/uploads/{pk}/complete", {"sha256": "0" * 64}).status_code == 202
    check_all()
    answer = post(client, f"/uploads/{pk}/complete")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["kind"] == "digest"
    assert nothing_is_left()


def test_more_bytes_than_announced_are_refused(cast: Cast, as_user: AsUser) -> None:
    assert upload(as_user(cast.engineer), models.small(), size=10).status_code == 422


def test_a_piece_larger_than_the_limit_is_refused_before_it_is_read(
    cast: Cast, as_user: AsUser, settings: Settings
) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
    answer = upload(as_user(cast.engineer), models.small())
    assert answer.status_code == 413
    assert answer["Content-Type"] == "application/problem+json"


def test_cancelling_leaves_nothing(cast: Cast, as_user: AsUser) -> None:
    client = as_user(cast.engineer)
    pk = post(client, "/uploads", {"filename": "net.onnx", "size": 1000}).json()["id"]
    client.put(f"/api/v1/uploads/{pk}/chunks/0", b"x" * 400, content_type="application/octet-stream")
    assert stored_files() != []
    assert client.delete(f"/api/v1/uploads/{pk}").status_code == 204
    assert nothing_is_left()
    assert client.get(f"/api/v1/uploads/{pk}").status_code == 404


def test_what_nobody_finished_is_swept_after_a_day_and_not_before(cast: Cast) -> None:
    opened = services.upload_open(
        organisation=cast.organisation, actor=cast.engineer, filename="net.onnx", size=1000, now=NOW
    )
    services.upload_chunk_put(organisation=cast.organisation, upload_id=opened.pk, offset=0, data=b"x" * 10, now=NOW)
    assert services.uploads_sweep(now=NOW + timedelta(hours=24, microseconds=-1)) == 0
    assert services.uploads_sweep(now=NOW + timedelta(hours=24)) == 1
    assert nothing_is_left()


def test_an_organisation_cannot_hold_storage_hostage(cast: Cast, settings: Settings) -> None:
    settings.UPLOAD_BYTES_MAX = 1000

    def open_one() -> None:
        services.upload_open(organisation=cast.organisation, actor=cast.engineer, filename="a", size=900, now=NOW)

    open_one()
    open_one()
    with pytest.raises(Problem) as refused:
        open_one()
    assert refused.value.status == 429


@pytest.mark.django_db(transaction=True)
def test_two_uploads_of_one_file_at_the_same_moment_make_one_version() -> None:
    cast, gate, results = assemble(), Barrier(2), []

    def add() -> None:
        gate.wait()
        try:
            results.append(
                services.model_file_add(
                    organisation=cast.organisation,
                    actor=cast.engineer,
                    name="net",
                    filename="net.onnx",
                    project_name="Default",
                    data=models.small(),
                    now=NOW,
                )
            )
        finally:
            connection.close()

    threads = [Thread(target=add) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(new for _, new in results) == [False, True]
    assert results[0][0].pk == results[1][0].pk
    assert len(stored_files()) == 1
