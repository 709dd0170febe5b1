"""A bad environment variable stops the start with a sentence that names it."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured

from apps.config import env


def test_a_missing_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SECRET_KEY", raising=False)
    with pytest.raises(ImproperlyConfigured, match="SECRET_KEY"):
        env.text("SECRET_KEY")


@pytest.mark.parametrize(("given", "meant"), [("1", True), ("YES", True), ("off", False), ("false", False), ("", True)])
def test_a_flag_is_read_in_words(monkeypatch: pytest.MonkeyPatch, given: str, meant: bool) -> None:
    monkeypatch.setenv("HTTPS", given)
    assert env.flag("HTTPS", default=True) is meant


@pytest.mark.parametrize("given", ["maybe", "2", "tru"])
def test_a_flag_that_is_neither_is_refused(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("HTTPS", given)
    with pytest.raises(ImproperlyConfigured, match=f"HTTPS must be one of .* '{given}'"):
        env.flag("HTTPS", default=False)


@pytest.mark.parametrize("given", ["ten", "1.5", "-1", "0"])
def test_a_number_that_is_none_or_too_small_is_refused(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("VISIBILITY_SECONDS", given)
    with pytest.raises(ImproperlyConfigured, match="at least 1"):
        env.integer("VISIBILITY_SECONDS", 60, at_least=1)


@pytest.mark.parametrize(
    ("given", "celery", "client"),
    [
        ("redis://host:6379/2", "redis://host:6379/2", "redis://host:6379/2"),
        ("redis+socket:///a/b.sock", "redis+socket:///a/b.sock?virtual_host=0", "unix:///a/b.sock?db=0"),
        ("redis+socket:///a/b.sock?virtual_host=3", "redis+socket:///a/b.sock?virtual_host=3", "unix:///a/b.sock?db=3"),
        ("unix:///a/b.sock?db=3", "redis+socket:///a/b.sock?virtual_host=3", "unix:///a/b.sock?db=3"),
    ],
)
def test_one_redis_address_is_told_in_both_dialects(
    monkeypatch: pytest.MonkeyPatch, given: str, celery: str, client: str
) -> None:
    monkeypatch.setenv("REDIS_URL", given)
    assert env.redis_urls("REDIS_URL") == (celery, client)


@pytest.mark.parametrize("given", ["http://host", "/a/b.sock", "unix://"])
def test_an_address_that_is_no_redis_is_refused(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("REDIS_URL", given)
    with pytest.raises(ImproperlyConfigured, match="REDIS_URL must be"):
        env.redis_urls("REDIS_URL")
