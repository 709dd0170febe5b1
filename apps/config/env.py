"""Reads environment variables strictly. The message about an invalid value names the variable."""

from __future__ import annotations

import os
from itertools import pairwise
from urllib.parse import parse_qsl, urlencode, urlsplit

from django.core.exceptions import ImproperlyConfigured

TRUE = frozenset({"1", "true", "yes", "on"})
SECRET_LENGTH, SECRET_VARIETY = 50, 16
EXAMPLES = ("insecure", "changeme", "change-me", "change_me", "secret_key", "secret-key", "example", "placeholder")
FALSE = frozenset({"0", "false", "no", "off"})


def text(name: str, default: str | None = None) -> str:
    """Return the variable's text. A variable without a default must be set and not empty."""
    value = os.environ.get(name, "") or default
    if value is None:
        raise ImproperlyConfigured(f"Set the environment variable {name}.")
    return value


def secret(name: str, *, is_public: bool) -> str:
    """Return the key that signs sessions. A public site needs a long, varied key."""
    value = text(name)
    if not is_public:
        return value
    faults = [
        (len(value) < SECRET_LENGTH, f"has {len(value)} characters, of at least {SECRET_LENGTH}"),
        (len(set(value)) < SECRET_VARIETY, f"has {len(set(value))} different characters, of at least {SECRET_VARIETY}"),
        (any(word in value.lower() for word in EXAMPLES), "is somebody's example"),
    ]
    for is_faulty, how in faults:
        if is_faulty:
            remedy = "python -c 'import secrets; print(secrets.token_urlsafe(50))'"
            raise ImproperlyConfigured(
                f"{name} {how}: anyone who guesses it can sign in as anyone. Create one with {remedy}."
            )
    return value


def is_local(url: str) -> bool:
    """Return whether a URL points to this machine."""
    return urlsplit(url).hostname in {"localhost", "127.0.0.1", "::1"}


def flag(name: str, default: bool) -> bool:
    """Return True for 1, true, yes or on, and False for 0, false, no or off."""
    value = os.environ.get(name, "").strip().lower()
    if not value:
        return default
    if value in TRUE:
        return True
    if value in FALSE:
        return False
    raise ImproperlyConfigured(f"{name} must be one of 1, true, yes, on, 0, false, no, off; it is {value!r}.")


def integer(name: str, default: int, *, at_least: int = 0) -> int:
    """Return the variable as a whole number of at least `at_least`."""
    value = os.environ.get(name, "").strip()
    if not value:
        return default
    if not value.lstrip("-").isdigit() or int(value) < at_least:
        raise ImproperlyConfigured(f"{name} must be a whole number of at least {at_least}; it is {value!r}.")
    return int(value)


def words(name: str, default: list[str]) -> list[str]:
    """Return the comma-separated words of the variable."""
    value = os.environ.get(name, "")
    return [word.strip() for word in value.split(",") if word.strip()] if value else default


def days(name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    """Return the comma-separated numbers of days, which must be increasing."""
    words_given = words(name, [str(one) for one in default])
    if not all(one.isdigit() for one in words_given):
        raise ImproperlyConfigured(f"{name} must be whole days such as 3,10,20; it is {os.environ[name]!r}.")
    found = tuple(int(one) for one in words_given)
    if not found or any(after <= before for before, after in pairwise(found)):
        raise ImproperlyConfigured(f"{name} must rise, as 3,10,20 does; it is {os.environ[name]!r}.")
    return found


def choice(name: str, default: str, allowed: set[str]) -> str:
    """Return the variable's value, which must be one of `allowed`."""
    value = text(name, default)
    if value not in allowed:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(sorted(allowed))}; it is {value!r}.")
    return value


def redis_urls(name: str) -> tuple[str, str]:
    """Return a Redis URL in two notations: Celery's and redis-py's."""
    value = text(name)
    parts = urlsplit(value)
    if parts.scheme in {"redis", "rediss"}:
        return value, value
    if parts.scheme not in {"redis+socket", "unix"} or not parts.path:
        raise ImproperlyConfigured(f"{name} must be redis://, rediss://, unix:// or redis+socket://; it is {value!r}.")
    query = dict(parse_qsl(parts.query))
    database = query.pop("db", None) or query.pop("virtual_host", None) or "0"
    celery = urlencode({**query, "virtual_host": database})
    plain = urlencode({**query, "db": database})
    return f"redis+socket://{parts.path}?{celery}", f"unix://{parts.path}?{plain}"
