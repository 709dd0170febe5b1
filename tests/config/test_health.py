"""What an orchestrator is told when a part does not serve."""

from __future__ import annotations

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from pytest_django import Settings

from apps.config import health


def test_a_process_is_alive_without_touching_the_database() -> None:
    assert Client().get("/healthz").json() == {"status": "alive"}


def test_a_missing_migration_is_counted(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_applied", health.threading.Event())
    (leaf,) = MigrationLoader(connection).graph.leaf_nodes("accounts")
    MigrationRecorder(connection).record_unapplied(*leaf)
    response = Client().get("/readyz")
    assert response.status_code == 503
    assert response.json()["parts"]["migrations"] == "1 migrations are not applied: run manage.py migrate"


def test_a_redis_that_does_not_answer_is_named(db: None, settings: Settings) -> None:
    backend = "django.core.cache.backends.redis.RedisCache"
    settings.CACHES = {"default": {"BACKEND": backend, "LOCATION": "unix:///nowhere.sock?db=0"}}
    response = Client().get("/readyz")
    settings.CACHES = {"default": {"BACKEND": backend, "LOCATION": settings.REDIS_CLIENT_URL}}
    assert response.status_code == 503
    assert response.json()["parts"]["redis"].startswith("failed (")
    assert response.json()["parts"]["database"] == "ok"


@pytest.mark.parametrize(("sent", "status"), [("", 401), ("Bearer wrong", 401), ("Bearer right", 200)])
def test_metrics_ask_for_their_token_when_one_is_set(settings: Settings, sent: str, status: int) -> None:
    settings.METRICS_TOKEN = "right"
    assert Client().get("/metrics", headers={"authorization": sent}).status_code == status


def test_each_answer_carries_an_id_of_its_own(db: None) -> None:
    first, second = (Client().get("/healthz")["X-Request-ID"] for _ in range(2))
    assert first != second
