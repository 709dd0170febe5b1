"""Uploads are checked by workers, in turns by organisation, whatever dies or is away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from celery import current_app
from django.core.files.storage import default_storage
from django.test import Client
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest_django import Settings

from apps.accounts import rates
from apps.accounts.models import Organisation, User
from apps.accounts.outages import storage_unavailable
from apps.accounts.roles import Scope
from apps.registry import selectors, services
from apps.registry.child import ChildFailed
from apps.registry.line import Waiting, line_of
from apps.registry.models import Upload
from apps.registry.services import checking, checks, versions
from apps.registry.services.uploads import OPEN_MAX
from tests.cast import Cast
from tests.registry import models
from tests.registry.helpers import NOW, check_all, post, stored_files, upload
from tests.tiers import some

AsUser = Callable[[User], Client]
START = datetime(2026, 3, 1, tzinfo=UTC)
OWNERS = [uuid4() for _ in range(4)]


@settings(max_examples=some(100))
@given(
    arrivals=st.lists(st.tuples(st.sampled_from(OWNERS), st.integers(0, 5)), max_size=30),
    turns=st.dictionaries(st.sampled_from(OWNERS), st.integers(0, 5), max_size=4),
)
def test_organisations_take_turns_and_each_ones_files_keep_their_order(
    arrivals: list[tuple[UUID, int]], turns: dict[UUID, int]
) -> None:
    waiting = [Waiting(uuid4(), owner, START + timedelta(seconds=second)) for owner, second in arrivals]
    line = line_of(waiting, {owner: START + timedelta(seconds=second) for owner, second in turns.items()})
    by_id = {one.upload_id: one for one in waiting}
    assert sorted(line) == sorted(by_id)
    left, had = Counter(owner for owner, _ in arrivals), Counter[UUID]()
    latest: dict[UUID, datetime] = {}
    for pk in line:
        one = by_id[pk]
        # Nobody has a turn while another who waits has had fewer.
        assert all(had[one.organisation_id] <= had[other] for other in left if left[other])
        assert one.since >= latest.get(one.organisation_id, START)
        latest[one.organisation_id] = one.since
        had[one.organisation_id] += 1
        left[one.organisation_id] -= 1


def queued(organisation: Organisation, actor: User, data: bytes, now: datetime = NOW, sha256: str = "") -> Upload:
    """An upload that has arrived and waits for its check."""
    opened = services.upload_open(organisation=organisation, actor=actor, filename="net.onnx", size=len(data), now=now)
    services.upload_chunk_put(organisation=organisation, upload_id=opened.pk, offset=0, data=data, now=now)
    return services.upload_complete(organisation=organisation, upload_id=opened.pk, now=now, sha256=sha256)


def test_one_organisations_flood_lets_anothers_file_pass(cast: Cast) -> None:
    flood = [
        queued(cast.organisation, cast.engineer, models.small(seed), NOW + timedelta(milliseconds=seed))
        for seed in range(OPEN_MAX)
    ]
    honest = queued(cast.stranger_organisation, cast.stranger, models.small(99), NOW + timedelta(seconds=1))
    assert selectors.upload_place(honest) == 2
    assert [selectors.upload_place(one) for one in flood[:3]] == [1, 3, 4]
    for second in range(2):
        assert services.upload_check_next(clock=lambda: NOW + timedelta(seconds=2 + second))  # noqa: B023
    honest.refresh_from_db()
    assert honest.state == Upload.State.READY
    assert Upload.objects.filter(state=Upload.State.READY).count() == 2


def test_an_organisation_has_one_check_at_a_time_and_others_go_on(cast: Cast) -> None:
    for seed in range(2):
        queued(cast.organisation, cast.engineer, models.small(seed))
    assert checks._claim(NOW) is not None
    assert checks._claim(NOW) is None
    other = queued(cast.stranger_organisation, cast.stranger, models.small(9))
    claimed = checks._claim(NOW)
    assert claimed is not None
    assert claimed.pk == other.pk


def test_a_check_whose_worker_died_is_done_by_another_and_given_up_after_three(cast: Cast) -> None:
    waiting, now = queued(cast.organisation, cast.engineer, models.small()), NOW
    dead = checks._claim(now)
    assert dead is not None
    assert checks._claim(now + checks.SILENT_AFTER - timedelta(microseconds=1)) is None
    now += checks.SILENT_AFTER
    assert services.upload_check_next(clock=lambda: now)
    waiting.refresh_from_db()
    assert (waiting.state, waiting.attempts) == (Upload.State.READY, 2)
    version = waiting.version
    checks._finish(dead, refusal=checks.damaged(), now=now)  # the first one comes back, and is too late
    waiting.refresh_from_db()
    assert (waiting.state, waiting.version) == (Upload.State.READY, version)

    again = queued(cast.organisation, cast.engineer, models.small(2), now)
    for _ in range(checks.ATTEMPTS_MAX):
        assert checks._claim(now) is not None
        now += checks.SILENT_AFTER
    assert services.upload_check_next(clock=lambda: now)
    again.refresh_from_db()
    assert again.state == Upload.State.REFUSED
    assert "The operating system stopped" in services.refusal_of(again).detail


def test_a_check_that_takes_long_keeps_its_upload_while_its_worker_lives(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, real = queued(cast.organisation, cast.engineer, models.small()), checking.child_run
    now = [NOW]

    def slow(*words: Any, beat: Callable[[], None], **more: Any) -> dict[str, Any]:
        for _ in range(10):
            now[0] += checks.SILENT_AFTER / 4
            assert checks._claim(now[0]) is None
            beat()
        return real(*words, beat=beat, **more)

    monkeypatch.setattr(checking, "child_run", slow)
    assert services.upload_check_next(clock=lambda: now[0])
    waiting.refresh_from_db()
    assert (waiting.state, waiting.attempts) == (Upload.State.READY, 1)


def test_a_storage_that_is_away_costs_no_attempt_and_no_file(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = queued(cast.organisation, cast.engineer, models.small())

    def away(*_: object) -> bytes:
        raise storage_unavailable()

    with monkeypatch.context() as patched:
        patched.setattr(default_storage, "open", away)
        assert not services.upload_check_next(clock=lambda: NOW)
    waiting.refresh_from_db()
    assert (waiting.state, waiting.attempts) == (Upload.State.QUEUED, 0)
    assert services.upload_check_next(clock=lambda: NOW)
    waiting.refresh_from_db()
    assert waiting.state == Upload.State.READY


def test_a_check_that_a_busy_machine_made_late_is_tried_again(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = queued(cast.organisation, cast.engineer, models.small())

    def late(*_: object, **__: object) -> dict[str, object]:
        raise ChildFailed("time", is_wall=True)

    for attempt in range(1, checks.ATTEMPTS_MAX + 1):
        with monkeypatch.context() as patched:
            patched.setattr(checking, "child_run", late)
            assert services.upload_check_next(clock=lambda: NOW)
        waiting.refresh_from_db()
        assert waiting.attempts == attempt
    assert waiting.state == Upload.State.REFUSED
    assert "busy machine" in services.refusal_of(waiting).detail

    again = queued(cast.organisation, cast.engineer, models.small())
    with monkeypatch.context() as patched:
        patched.setattr(checking, "child_run", late)
        assert services.upload_check_next(clock=lambda: NOW)
    assert services.upload_check_next(clock=lambda: NOW)
    again.refresh_from_db()
    assert again.state == Upload.State.READY


@pytest.mark.django_db(transaction=True)
def test_a_file_is_accepted_while_the_broker_is_away_and_the_sweep_takes_it_up(
    cast: Cast, as_user: AsUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise ConnectionError("no broker")

    monkeypatch.setattr(current_app, "send_task", away)
    monkeypatch.setattr(
        "apps.registry.services.versions.model_check", lambda _: pytest.fail("checked by the web process")
    )
    client = as_user(cast.engineer)
    data = models.small()
    pk = post(client, "/uploads", {"filename": "net.onnx", "size": len(data)}).json()["id"]
    client.put(f"/api/v1/uploads/{pk}/chunks/0", data, content_type="application/octet-stream")
    answers = [post(client, f"/uploads/{pk}/complete") for _ in range(2)]
    assert [(one.status_code, one.json()["position"], one["Retry-After"]) for one in answers] == [(202, 1, "1")] * 2
    asked: list[int] = []
    assert services.checks_sweep(now=NOW, send=lambda: asked.append(1)) == 1
    assert asked == [1]
    monkeypatch.undo()
    check_all()
    told = client.get(f"/api/v1/uploads/{pk}").json()
    assert (told["state"], told["position"], told["problem"]) == ("ready", None, None)
    assert client.get(f"/uploads/{pk}").url == f"/versions/{told['version_id']}"
    assert services.checks_sweep(now=NOW, send=lambda: asked.append(2)) == 0


def test_the_result_is_told_for_an_hour(cast: Cast, as_user: AsUser) -> None:
    client = as_user(cast.engineer)
    refused = upload(client, b"no model").json()
    pk = Upload.objects.get().pk
    told = client.get(f"/api/v1/uploads/{pk}").json()
    assert told["problem"] == refused
    finished = Upload.objects.get().finished_at
    assert finished is not None
    assert services.uploads_sweep(now=finished + checks.KEPT - timedelta(microseconds=1)) == 0
    assert services.uploads_sweep(now=finished + checks.KEPT) == 1
    assert stored_files() == []


def test_what_is_cancelled_in_line_is_never_checked(cast: Cast, as_user: AsUser) -> None:
    waiting = queued(cast.organisation, cast.engineer, models.small())
    assert as_user(cast.engineer).delete(f"/api/v1/uploads/{waiting.pk}").status_code == 404  # its time is another
    services.upload_cancel(organisation=cast.organisation, upload_id=waiting.pk, now=NOW)
    assert not services.upload_check_next(clock=lambda: NOW)
    assert stored_files() == []


def test_one_file_too_many_at_a_time_is_told_when_to_come_again(cast: Cast, as_user: AsUser) -> None:
    client = as_user(cast.engineer)
    answers = [post(client, "/uploads", {"filename": "net.onnx", "size": 10}) for _ in range(OPEN_MAX + 1)]
    assert [one.status_code for one in answers] == [201] * OPEN_MAX + [429]
    assert answers[-1]["Retry-After"].isdigit()
    assert answers[-1].json()["code"] == "too-many-uploads"
    assert post(as_user(cast.stranger), "/uploads", {"filename": "net.onnx", "size": 10}).status_code == 201


def test_a_sample_that_somebody_has_is_not_checked_again(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    first = services.sample_add(organisation=cast.organisation, actor=cast.engineer, slug="digits-small", now=NOW)
    monkeypatch.setattr(versions, "model_check", lambda _: pytest.fail("checked again"))
    other = services.sample_add(
        organisation=cast.stranger_organisation, actor=cast.stranger, slug="digits-small", now=NOW
    )
    assert other.pk != first.pk
    for field in selectors.REPORTED:
        assert getattr(other, field) == getattr(first, field)


def refusals(client: Client, path: str, count: int) -> list[int]:
    answers = [client.get(path) for _ in range(count)]
    for one in answers:
        if one.status_code == 429:
            assert one["Content-Type"] == "application/problem+json"
            assert 1 <= int(one["Retry-After"]) <= 60
            assert one.json()["code"] == "too-many-requests"
    return [one.status_code for one in answers]


def test_an_account_has_its_own_limit_at_the_api_whichever_token_it_uses(
    cast: Cast, as_user: AsUser, as_token: Callable[..., Client], settings: Settings
) -> None:
    settings.API_PER_MINUTE = 3
    session, token = as_user(cast.engineer), as_token(cast.engineer, cast.organisation, Scope.READ)
    assert refusals(session, "/api/v1/versions", 2) + refusals(token, "/api/v1/versions", 2) == [200] * 3 + [429]
    assert refusals(as_user(cast.viewer), "/api/v1/versions", 2) == [200] * 2


def test_an_address_has_its_own_limit_whoever_asks(cast: Cast, as_user: AsUser, settings: Settings) -> None:
    settings.API_PER_MINUTE_ADDRESS = 2
    assert refusals(Client(), "/api/v1/versions", 2) == [401] * 2
    assert refusals(as_user(cast.engineer), "/api/v1/versions", 1) == [429]
    assert refusals(Client(REMOTE_ADDR="192.0.2.7"), "/api/v1/versions", 1) == [401]
    assert as_user(cast.engineer).get("/models").status_code == 200


def test_files_are_counted_by_account_on_the_page_as_in_the_api(
    cast: Cast, as_user: AsUser, settings: Settings
) -> None:
    settings.UPLOADS_PER_HOUR = 2
    client = as_user(cast.engineer)
    assert post(client, "/uploads", {"filename": "net.onnx", "size": 10}).status_code == 201
    assert client.post("/models/samples", {"slug": "digits-small"}).status_code == 302
    assert post(client, "/uploads", {"filename": "net.onnx", "size": 10}).status_code == 429
    refused = client.post("/models/samples", {"slug": "digits-small"})
    assert (refused.status_code, refused["Retry-After"].isdigit()) == (429, True)


def test_without_valkey_the_api_answers(cast: Cast, as_user: AsUser, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> rates.MovingWindowRateLimiter:
        return rates.MovingWindowRateLimiter(
            rates.storage_from_string("redis+unix:///nowhere.sock?db=0", wrap_exceptions=True)
        )

    monkeypatch.setattr(rates, "_shared", gone)
    assert refusals(as_user(cast.engineer), "/api/v1/versions", 3) == [200] * 3
