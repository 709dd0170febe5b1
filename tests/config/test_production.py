"""What production needs before it starts, and what no log and no stranger may see."""

from __future__ import annotations

import base64
import hashlib
import io
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import structlog
from django.conf import settings as site
from django.test import Client
from pytest_django import Settings

from apps.config import env
from apps.config.redacting import redacted
from bin import audit

ROOT = Path(site.BASE_DIR)
# Derived, not drawn: the names of parametrised tests must be the same in every test process.
STRONG = base64.urlsafe_b64encode(hashlib.sha512(b"a key of the tests").digest()).decode()


def _python(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process with production's environment; nothing is connected to."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={
            "PATH": os.environ["PATH"],
            "DATABASE_URL": "postgres://nobody/none",
            "REDIS_URL": "redis://nobody",
            "SITE_URL": "https://takt.example.com",
            "ALLOWED_HOSTS": "takt.example.com",
            "SECRET_KEY": STRONG,
            **environment,
        },
    )


def test_the_check_for_deployment_is_clean() -> None:
    outcome = _python("manage.py", "check", "--deploy", "--fail-level", "DEBUG", HTTPS="1")
    assert outcome.returncode == 0, outcome.stderr
    assert "no issues" in outcome.stdout
    assert _python("manage.py", "check", "--deploy", "--fail-level", "WARNING").returncode == 1, (
        "without TLS it has something to say"
    )


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("short", "has 5 characters"),
        ("ab" * 40, "has 2 different characters"),
        (f"django-insecure-{STRONG}", "somebody's example"),
        (f"ChangeMe-{STRONG}", "somebody's example"),
    ],
)
def test_a_weak_key_does_not_start_where_others_reach_it(monkeypatch: pytest.MonkeyPatch, key: str, why: str) -> None:
    from django.core.exceptions import ImproperlyConfigured

    monkeypatch.setenv("SECRET_KEY", key)
    with pytest.raises(ImproperlyConfigured, match=f"SECRET_KEY .*{why}"):
        env.secret("SECRET_KEY", is_public=True)
    assert env.secret("SECRET_KEY", is_public=False) == key
    monkeypatch.setenv("SECRET_KEY", STRONG)
    assert env.secret("SECRET_KEY", is_public=True) == STRONG


def test_the_settings_ask_so_by_tls_and_by_address() -> None:
    weak, local = {"SECRET_KEY": "filled-in"}, {"SITE_URL": "http://localhost:8000"}
    for environment, starts in (
        ({**weak}, False),
        ({**weak, **local, "HTTPS": "1"}, False),
        ({**weak, **local}, True),
        ({"DEBUG": "1"}, False),
        ({"DEBUG": "1", **local}, True),
    ):
        outcome = _python("-c", "import apps.config.settings; print('started')", **environment)
        assert ("started" in outcome.stdout) is starts, (environment, outcome.stderr)
        assert starts or "ImproperlyConfigured" in outcome.stderr


@pytest.mark.parametrize(
    ("headers", "local", "status"),
    [
        ({}, False, 401),
        ({"authorization": "Bearer none"}, False, 401),
        ({}, True, 200),
        ({"x-forwarded-for": "203.0.113.9"}, True, 401),
        ({"forwarded": "for=203.0.113.9"}, True, 401),
    ],
)
def test_metrics_are_closed(settings: Settings, headers: dict[str, str], local: bool, status: int) -> None:
    settings.METRICS_TOKEN, settings.METRICS_LOCAL = "none", local
    assert Client().get("/metrics", headers=headers).status_code == status
    assert Client().get("/metrics", REMOTE_ADDR="203.0.113.9").status_code == 401


SECRET = "q3-Zr_9aXbC7dEfGhIjKlMnOpQrStUvWxYz012345678"


def test_no_log_holds_the_secret_of_an_address(db: None) -> None:
    """Our own line for each request, Django's for what is missing, refused or broken, and a library's."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    kinds = [one.formatter for one in logging.getLogger().handlers]
    formatter = next(one for one in kinds if isinstance(one, structlog.stdlib.ProcessorFormatter))
    handler.setFormatter(formatter)
    loggers = [logging.getLogger(name) for name in ("", "request", "django.request", "django.security.csrf")]
    levels = [one.level for one in loggers]
    logging.getLogger().addHandler(handler)
    try:
        for one in loggers:
            one.setLevel(logging.INFO)
        paths = (
            f"/shared/quotes/{SECRET}",
            f"/invitations/{SECRET}",
            f"/nowhere/{SECRET}/x",
            f"/invitations/short?{SECRET}",
        )
        for path in paths:
            Client().get(path)
            Client(enforce_csrf_checks=True).post(path)
        logging.getLogger("library").warning("asked %s", f"https://takt.example.com/shared/quotes/{SECRET}")
        structlog.get_logger("request").warning("by hand", path=f"/invitations/{SECRET}")
    finally:
        logging.getLogger().removeHandler(handler)
        for one, level in zip(loggers, levels, strict=True):
            one.setLevel(level)
    said = written.getvalue()
    assert "/shared/quotes/[secret]" in said, "something was written"
    assert "/invitations/[secret]" in said
    assert SECRET not in said
    assert "/invitations/short" not in said


def test_ids_and_digests_stay() -> None:
    kept = f"/contracts/0b6f2f0e-1111-4222-8333-444455556666 /models/{'ab12' * 16} /media/jobs/x/inputs.npz"
    assert redacted(kept) == kept
    assert redacted(f"GET /a/{SECRET}/b 404") == "GET /a/[secret]/b 404"


def test_neither_way_of_running_keeps_an_access_log() -> None:
    """gunicorn writes none unless it is told to; a proxy of ours does not exist."""
    command = (ROOT / "docker" / "Dockerfile").read_text().split("CMD")[-1]
    assert "gunicorn" in command
    assert "access-log" not in command
    local = "".join((ROOT / "bin" / "stack.py").read_text().split())
    assert '"--access-logfile","/dev/null"' in local


def test_an_audit_says_what_it_found_and_what_it_could_not_look_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fault = {"id": "PYSEC-1", "fix_versions": ["2.0"]}
    rows = [{"name": "a", "version": "1.0", "vulns": [fault]}, {"name": "b", "version": "1.0", "vulns": []}]
    found = audit.python_read("requirements.lock", {"dependencies": rows})
    assert (found.packages, found.faults) == (2, ("a 1.0: PYSEC-1, fixed in 2.0",))
    npm = {"vulnerabilities": {"c": {"severity": "high"}}, "metadata": {"dependencies": {"total": 7}}}
    assert audit.browser_read("package-lock.json", npm).faults == ("c: high",)
    with pytest.raises(KeyError):
        audit.browser_read("package-lock.json", {"error": {"code": "ENOTFOUND"}})
    # The real commands, where no database can be reached.
    for name in (
        "http_proxy",
        "https_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "npm_config_proxy",
        "npm_config_https_proxy",
    ):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    (tmp_path / audit.LOCKS[0]).write_text(f"six==1.17.0 --hash=sha256:{'0' * 64}\n")
    (tmp_path / "package-lock.json").write_text((ROOT / "package-lock.json").read_text())
    (tmp_path / "package.json").write_text((ROOT / "package.json").read_text())
    monkeypatch.setattr(audit, "LOCKS", audit.LOCKS[:1])
    assert audit.audit(tmp_path) == audit.UNCHECKED
    said = capsys.readouterr().out
    assert said.count("NOT CHECKED: no database of advisories could be reached") == 2, said
