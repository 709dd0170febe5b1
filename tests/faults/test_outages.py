"""Broker, storage and database are away or full while somebody asks: what was accepted stays, what was not leaves nothing."""

from __future__ import annotations

import resource
import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import psycopg2
import pytest
from django.core.cache import cache
from django.core.files.storage import default_storage
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import OperationalError, connection, transaction
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from apps.accounts import broker
from apps.accounts.files import file_save, file_transaction
from apps.accounts.models import AuditEntry, IdempotencyRecord, User
from apps.accounts.outages import Unavailable
from apps.compilation.models import CompileJob
from apps.compilation.services import compile_send, job_create, job_run, jobs_sweep
from apps.compilation.services import running as compiling
from apps.config.celery import app
from apps.dispatch import execution, services
from apps.dispatch.models import Job, JobState, Lease, LeaseState
from apps.fleet.services import workerhost_seen
from apps.invoicing import outbox
from apps.ledger.models import UsageRow
from apps.registry.child import Limits
from apps.registry.feeds import arrays_pack
from apps.registry.models import ModelVersion, Upload
from apps.registry.selectors import SAMPLES
from apps.registry.services import sample_add, upload_check_next, upload_chunk_put, upload_complete, upload_open
from apps.reports.reconciling import reconciliation_request
from apps.reports.recovery import unfinished_sweep
from apps.sales.models import Contract, ContractLine
from tests.cast import Cast
from tests.dispatch.real import real_program
from tests.dispatch.scene import Scene

AsUser = Callable[[User], Client]
NOWHERE = "redis+socket:///nowhere.sock"


@pytest.fixture
def no_broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody listens where messages go."""
    with monkeypatch.context() as patch:
        patch.setattr(app.conf, "broker_write_url", NOWHERE)
        patch.setattr(broker, "AWAY_SECONDS", 0.0)
        app._after_fork()
        yield
    app._after_fork()
    broker._breaker.away_until = 0.0


@pytest.fixture
def contract(present: Scene) -> Contract:
    return present.contract((present.program(operations=1_000_000), 100))


@pytest.fixture
def client(present: Scene, as_user: AsUser) -> Client:
    client = as_user(present.cast.engineer)
    client.raise_request_exception = False
    return client


def stored() -> list[str]:
    """Every file in the storage, halves of one too."""
    return sorted(str(one) for one in Path(default_storage.location).rglob("*") if one.is_file())  # type: ignore[attr-defined]


def post_npz(client: Client, contract: Contract, **headers: str) -> Any:
    file = SimpleUploadedFile("inputs.npz", arrays_pack({"x": np.ones((3, 4), "float32")}))
    return client.post("/api/v1/jobs/npz", {"contract": str(contract.pk), "inputs": file}, headers=headers)


def taken(contract: Contract) -> int:
    return ContractLine.objects.get(contract=contract).taken


def is_refused(answer: Any) -> bool:
    """503 as the API tells it, with a time after which the same may succeed."""
    assert (answer.status_code, answer["Content-Type"]) == (503, "application/problem+json"), answer.content
    assert int(answer["Retry-After"]) > 0
    problem = answer.json()
    return problem["code"] == "unavailable" and "Try again in" in problem["detail"]


# The broker


@pytest.mark.parametrize("key", ["", "once"])
def test_a_job_is_accepted_without_the_broker_and_offered_once_it_is_back(
    client: Client, contract: Contract, no_broker: None, key: str
) -> None:
    headers = {"Idempotency-Key": key} if key else {}
    answer = post_npz(client, contract, **headers)
    assert answer.status_code == 201, answer.content
    job = Job.objects.get(pk=answer.json()["id"])
    assert default_storage.exists(job.inputs_key)
    assert taken(contract) == 3
    later = timezone.now() + timedelta(seconds=11)
    workerhost_seen(name="h", pool_slug=contract.pool.slug, concurrency=1, is_start=True, now=later)
    assert services.leases_offer_due(now=later) == Lease.objects.filter(state=LeaseState.OFFERED).count() == 1


def test_a_compile_is_accepted_without_the_broker_and_handed_out_once_it_is_back(
    client: Client, present: Scene, no_broker: None
) -> None:
    version = sample_add(
        organisation=present.cast.organisation, actor=present.cast.engineer, slug="digits-small", now=timezone.now()
    )
    body = {"version_id": str(version.pk), "target": "lpu", "precision": "float32", "dims": {}}
    answer = client.post("/api/v1/compiles", body, content_type="application/json")
    assert answer.status_code in {201, 202}, answer.content
    job = CompileJob.objects.get()
    later = timezone.now() + compiling.IDLE_AFTER
    assert jobs_sweep(now=later, send=compile_send) == [job.pk]


def test_work_for_reports_that_the_broker_lost_is_carried_out_by_the_sweep(present: Scene) -> None:
    now = timezone.now()
    run = reconciliation_request(asked_by=present.cast.admin, now=now)
    assert unfinished_sweep(now=now) == 0
    assert unfinished_sweep(now=now + timedelta(seconds=10)) == 1
    run.refresh_from_db()
    assert run.finished_at is not None


def test_a_page_and_the_outbox_need_no_cache(
    client: Client, present: Scene, no_broker: None, settings: Settings
) -> None:
    settings.CACHES = {**settings.CACHES, "default": {**settings.CACHES["default"], "LOCATION": "unix:///nowhere.sock"}}
    try:
        with transaction.atomic():
            outbox.outbox_write(
                organisation_id=present.cast.organisation.pk, topic="test", payload={}, now=timezone.now()
            )
        assert client.get("/jobs").status_code == 200
    finally:
        settings.CACHES = {
            **settings.CACHES,
            "default": {**settings.CACHES["default"], "LOCATION": settings.REDIS_CLIENT_URL},
        }
        cache.clear()


# The storage


@pytest.fixture
def storage_away(tmp_path: Path) -> Iterator[Callable[[], None]]:
    """Takes the folder of the storage away, as a mount that goes; the function brings it back."""
    media, aside = Path(default_storage.location), tmp_path / "aside"  # type: ignore[attr-defined]
    default_storage.exists("seen")
    media.rename(aside)

    def back() -> None:
        if aside.exists():
            aside.rename(media)

    yield back
    back()


@pytest.mark.parametrize("fault", ["away", "full"])
@pytest.mark.parametrize("key", ["", "once"])
def test_a_job_that_cannot_be_kept_is_refused_and_leaves_nothing(
    client: Client, contract: Contract, settings: Settings, request: pytest.FixtureRequest, fault: str, key: str
) -> None:
    before = stored()
    least = settings.FREE_BYTES_MIN
    back = request.getfixturevalue("storage_away") if fault == "away" else None
    settings.FREE_BYTES_MIN = least if back else 2**62
    headers = {"Idempotency-Key": key} if key else {}
    assert is_refused(post_npz(client, contract, **headers))
    assert not Path(default_storage.location).exists() or not back  # type: ignore[attr-defined]
    settings.FREE_BYTES_MIN = least
    if back:
        back()
    assert (Job.objects.count(), taken(contract), stored()) == (0, 0, before)
    assert not IdempotencyRecord.objects.exists()
    assert post_npz(client, contract, **headers).status_code == 201
    assert taken(contract) == 3


def test_a_page_says_that_the_disk_is_full(client: Client, contract: Contract, settings: Settings) -> None:
    settings.FREE_BYTES_MIN = 2**62
    file = SimpleUploadedFile("inputs.npz", arrays_pack({"x": np.ones((3, 4), "float32")}))
    answer = client.post("/jobs/new", {"contract": str(contract.pk), "inputs": file})
    assert answer.status_code == 503, answer.content[:300]
    assert "file storage is full" in answer.content.decode()
    assert answer["Retry-After"] == "5"


def test_half_a_file_is_not_left_where_the_disk_ends() -> None:
    """The kernel refuses the bytes, as a full disk does (here a limit on the size of this process's files)."""
    before, limits = stored(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(Unavailable, match="full"):
            file_save("half.bin", b"x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert stored() == before


def test_a_lease_waits_for_the_storage_and_runs_when_it_is_back(present: Scene) -> None:
    job = present.job(present.contract((real_program(present), 100)), 10, shape=(1, 8))
    media = Path(default_storage.location)  # type: ignore[attr-defined]
    media.rename(media.with_name("gone"))
    for _ in range(services.leases.EPOCHS_MAX + 1):  # more often than a silent lease is offered
        services.leases_offer_due(now=timezone.now() + timedelta(seconds=1))
        lease = Lease.objects.get(stage__job=job)
        assert not execution.lease_execute(lease_id=lease.pk, epoch=lease.epoch, host="here", clock=timezone.now)
        lease.refresh_from_db()
        assert (lease.state, lease.epoch) == (LeaseState.PLANNED, 1)
    media.with_name("gone").rename(media)
    services.leases_offer_due(now=timezone.now() + timedelta(seconds=1))
    assert execution.lease_execute(lease_id=lease.pk, epoch=1, host="here", clock=timezone.now)
    services.job_advance(job_id=job.pk, now=timezone.now())
    job.refresh_from_db()
    assert (job.state, job.problem, UsageRow.objects.count()) == (JobState.DONE, "", 1)


def test_a_lease_is_given_back_when_the_database_goes_while_it_is_billed(
    present: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker tells the database once it is back, so that nobody waits for the lease to fall silent."""
    job = present.job(present.contract((real_program(present), 100)), 10, shape=(1, 8))
    services.leases_offer_due(now=timezone.now() + timedelta(seconds=1))
    lease = Lease.objects.get(stage__job=job)
    with monkeypatch.context() as patch:
        patch.setattr("apps.dispatch.services.leases.usage_of", lambda **_: end_session() or User.objects.count())
        assert not execution.lease_execute(lease_id=lease.pk, epoch=1, host="here", clock=timezone.now)
    lease.refresh_from_db()
    assert (lease.state, UsageRow.objects.count()) == (LeaseState.PLANNED, 0)
    services.leases_offer_due(now=timezone.now() + timedelta(seconds=1))
    assert execution.lease_execute(lease_id=lease.pk, epoch=1, host="here", clock=timezone.now)
    assert UsageRow.objects.count() == 1


def test_a_compile_whose_disk_is_full_is_not_called_a_defect(
    present: Scene, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    monkeypatch.setattr(compiling, "LIMITS", Limits(memory=8 * 2**30, cpu=60, wall=60, file=1_000))
    now = timezone.now()
    version = sample_add(
        organisation=present.cast.organisation, actor=present.cast.engineer, slug="digits-small", now=now
    )
    job = job_create(version=version, target="lpu", actor=present.cast.engineer, now=now)
    settings.FREE_BYTES_MIN = 2**62
    job_run(job_id=job.pk, clock=timezone.now)
    job.refresh_from_db()
    assert (job.state, job.error) == (CompileJob.State.QUEUED, None)


def test_a_job_whose_inputs_are_gone_for_good_says_so(present: Scene) -> None:
    job = present.job(present.contract((real_program(present), 100)), 10, shape=(1, 8))
    default_storage.delete(job.inputs_key)
    services.leases_offer_due(now=timezone.now() + timedelta(seconds=1))
    lease = Lease.objects.get(stage__job=job)
    assert not execution.lease_execute(lease_id=lease.pk, epoch=lease.epoch, host="here", clock=timezone.now)
    job.refresh_from_db()
    assert (job.state, job.problem) == (
        JobState.FAILED,
        "A file of this job is no longer in our storage, so the job cannot run. This is our fault, not yours.",
    )


def test_a_compile_waits_for_the_storage_and_counts_no_attempt(present: Scene) -> None:
    now = timezone.now()
    version = sample_add(
        organisation=present.cast.organisation, actor=present.cast.engineer, slug="digits-small", now=now
    )
    job = job_create(version=version, target="lpu", actor=present.cast.engineer, now=now)
    media = Path(default_storage.location)  # type: ignore[attr-defined]
    media.rename(media.with_name("gone"))
    for _ in range(compiling.ATTEMPTS_MAX + 1):
        job_run(job_id=job.pk, clock=timezone.now)
    job.refresh_from_db()
    assert (job.state, job.attempts, job.error) == (CompileJob.State.QUEUED, 0, None)
    media.with_name("gone").rename(media)
    job_run(job_id=job.pk, clock=timezone.now)
    job.refresh_from_db()
    assert job.state == CompileJob.State.DONE, job.error


def test_an_upload_goes_on_after_the_storage_was_away(cast: Cast, transactional_db: None) -> None:
    now = timezone.now()
    data = next(one for one in SAMPLES if one.slug == "digits-small").model_path.read_bytes()
    who: dict[str, Any] = {"organisation": cast.organisation, "now": now}
    upload = upload_open(actor=cast.engineer, filename="a.onnx", size=len(data), **who)
    upload_chunk_put(upload_id=upload.pk, offset=0, data=data, **who)
    media = Path(default_storage.location)  # type: ignore[attr-defined]
    media.rename(media.with_name("gone"))
    upload_complete(upload_id=upload.pk, **who)
    assert not upload_check_next(clock=lambda: now)
    assert not ModelVersion.objects.exists()
    media.with_name("gone").rename(media)
    assert upload_check_next(clock=lambda: now)
    upload.refresh_from_db()
    assert (upload.state, upload.is_new, upload.version) == (Upload.State.READY, True, ModelVersion.objects.get())
    assert stored() == [str(media / ModelVersion.objects.get().storage_key)]


# The database


def end_session() -> None:
    """The server ends this process's session, as it does when it stops."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    told = connection.get_connection_params()
    other = psycopg2.connect(**{name: told[name] for name in ("dbname", "user", "host") if name in told})
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
    other.close()


@pytest.mark.parametrize("key", ["", "once"])
def test_a_job_is_refused_when_the_database_goes_amid_it(
    client: Client, contract: Contract, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    before = stored()
    with monkeypatch.context() as patch:
        patch.setattr("apps.dispatch.services.jobs.audit_record", lambda **_: end_session() or User.objects.count())
        assert is_refused(post_npz(client, contract, **({"Idempotency-Key": key} if key else {})))
    connection.close()
    assert (Job.objects.count(), taken(contract), stored()) == (0, 0, before)


def test_a_page_is_plain_when_the_database_goes(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("apps.dispatch.views.render", lambda *_, **__: end_session() or User.objects.count())
        answer = client.get("/jobs")
    connection.close()
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert "The database is not responding" in answer.content.decode()


@file_transaction()
def save_and(name: str, after: Callable[[], object]) -> None:
    file_save(name, b"1")
    AuditEntry.objects.create(at=timezone.now(), action=name)
    after()


def refuse() -> None:
    raise ZeroDivisionError


def test_files_go_with_a_rollback_and_stay_when_nobody_knows(transactional_db: None) -> None:
    with pytest.raises(ZeroDivisionError):
        save_and("a", refuse)
    with file_transaction():
        file_save("b", b"1")
        with pytest.raises(ZeroDivisionError):
            save_and("c", refuse)
        transaction.set_rollback(True)
    assert stored() == []
    with pytest.raises(OperationalError):  # while it commits
        save_and("d", end_session)
    connection.close()
    assert [Path(one).name for one in stored()] == ["d"]


# What an orchestrator is told


def test_ready_names_a_full_disk(db: None, settings: Settings) -> None:
    free = shutil.disk_usage("/").free
    settings.FREE_BYTES_MIN = free + 2**30
    answer = Client().get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["parts"]["disk"].startswith("full: ")
    assert answer.json()["parts"]["database"] == "ok"
