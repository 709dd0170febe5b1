"""Idempotency keys on a real API with a real table: once is once, also at the same moment."""

from __future__ import annotations

import json
import threading
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from django.utils import timezone
from ninja import NinjaAPI, Schema

from apps.accounts.access import principal_of_user
from apps.accounts.idempotency import REPLAYED, idempotent
from apps.accounts.models import IdempotencyRecord, Organisation, User
from apps.accounts.problems import Problem, problem_response
from tests.cast import Cast

api = NinjaAPI(urls_namespace="idempotency-test")


class NameIn(Schema):
    name: str


@api.exception_handler(Problem)
def on_problem(request: HttpRequest, problem: Problem) -> HttpResponse:
    return problem_response(problem)


@api.post("/things", response={201: dict[str, str]})
@idempotent
def thing_create(request: HttpRequest, payload: NameIn) -> tuple[int, dict[str, str]]:
    made = Organisation.objects.create(name=payload.name, slug=str(uuid4()))
    if payload.name == "refused":
        raise Problem(409, "Refused", "Choose another name.", kind="name-taken")
    return 201, {"id": str(made.pk)}


def post(user: User, key: str, payload: dict[str, Any]) -> HttpResponse:
    request = RequestFactory().post(
        "/things", json.dumps(payload), "application/json", headers={"idempotency-key": key}
    )
    request.auth = principal_of_user(user, None)  # type: ignore[attr-defined]
    views = {str(pattern.pattern): pattern for pattern in api.urls[0]}
    return views["things"].callback(request)  # type: ignore[no-any-return, union-attr]


def test_the_repetition_is_answered_the_same_and_makes_nothing(cast: Cast) -> None:
    first, second = (post(cast.owner, "k1", {"name": "One"}) for _ in range(2))
    assert (first.status_code, first.content) == (second.status_code, second.content)
    assert first.status_code == 201
    assert REPLAYED not in first
    assert second[REPLAYED] == "true"
    assert Organisation.objects.filter(name="One").count() == 1


def test_the_same_key_with_another_request_is_refused(cast: Cast) -> None:
    post(cast.owner, "k1", {"name": "One"})
    response = post(cast.owner, "k1", {"name": "Two"})
    assert response.status_code == 409
    assert json.loads(response.content)["code"] == "idempotency-key-reused"
    assert not Organisation.objects.filter(name="Two").exists()


def test_one_organisations_keys_are_not_anothers(cast: Cast) -> None:
    assert post(cast.owner, "k1", {"name": "One"}).content != post(cast.stranger, "k1", {"name": "One"}).content


def test_a_refusal_leaves_nothing_behind_and_the_key_may_be_used_again(cast: Cast) -> None:
    assert post(cast.owner, "k1", {"name": "refused"}).status_code == 409
    assert not Organisation.objects.filter(name="refused").exists()
    assert not IdempotencyRecord.objects.exists()
    assert post(cast.owner, "k1", {"name": "Good"}).status_code == 201


@pytest.mark.django_db(transaction=True)
def test_two_at_the_same_moment_make_one_thing() -> None:
    user = User.objects.create(email="a@example.com", name="A", created_at=timezone.now())
    answers: list[bytes] = []
    gate = threading.Barrier(4)

    def send() -> None:
        gate.wait()
        answers.append(post(user, "k1", {"name": "One"}).content)
        connection.close()

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(answers)) == 1
    assert Organisation.objects.filter(name="One").count() == 1
