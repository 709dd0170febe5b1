"""Limits on password guessing and sign-ups.

Strangers cannot lock a person out, because browsers in which the person has signed in before are counted separately
("device cookie", OWASP Authentication Cheat Sheet).
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse

from apps.accounts.problems import Problem
from apps.accounts.rates import Rate, client_key, rate_check, rate_forget, rate_take

QUARTER, HOUR = 900, 3600  # seconds
WRONG_PAIR = Rate("wrong password, account and address", 5, QUARTER)
WRONG_BURST = Rate("wrong password, address, within a minute", 15, 60)
WRONG_ADDRESS = Rate("wrong password, address", 50, QUARTER)
WRONG_ACCOUNT = Rate("wrong password, account", 100, HOUR)
SIGN_IN = Rate("sign-in", 120, 300)
SIGN_UP = Rate("sign-up", 20, HOUR)
RESET = Rate("password reset", 20, HOUR)
CODES = Rate("second factor", 10, QUARTER)
PASSWORDS = Rate("password change", 10, QUARTER)
MAIL_CHANGE = Rate("address change", 10, HOUR)
PASSKEYS = Rate("passkey request", 60, 300)
MAILS = Rate("mail to one address", 5, HOUR)

COOKIE = "takt_known"
COOKIE_LASTS = timedelta(days=180)
COOKIE_ACCOUNTS = 5
_SALT = "accounts.known-browser"


def password_try(request: HttpRequest, email: str) -> None:
    """Raise Problem(429) if too many wrong passwords were entered recently."""
    for rate, key in _counters(request, email):
        rate_check(rate, key)


def password_wrong(request: HttpRequest, email: str) -> None:
    """Count a wrong password. The account need not exist."""
    for rate, key in _counters(request, email):
        _count(rate, key)


def password_renewed(email: str) -> None:
    """Reset the account's count of wrong passwords after a password reset by mail."""
    rate_forget(WRONG_ACCOUNT, _account(email))


def mail_allowed(template: str, email: str) -> bool:
    """Count an e-mail and return True, or return False if the address has reached the limit for e-mails of this kind."""
    try:
        rate_take(MAILS, f"{template} {_account(email)}")
    except Problem:
        return False
    return True


def person_key(request: HttpRequest, pk: object) -> str:
    """Return the key under which a person's attempts are counted.

    All browsers in which the person has never signed in share one key.
    """
    return f"{pk} {_known_browser(request, str(pk)) or 'elsewhere'}"


def browser_remember(request: HttpRequest, response: HttpResponse, *, pk: object, email: str) -> None:
    """Mark the browser as one in which this person has signed in."""
    held = _cookie(request)
    mine = [_account(email), _account(str(pk))]
    accounts = [*mine, *(one for one in held["accounts"] if one not in mine)][: 2 * COOKIE_ACCOUNTS]
    response.set_cookie(
        COOKIE,
        signing.dumps({"id": held["id"], "accounts": accounts}, salt=_SALT),
        max_age=int(COOKIE_LASTS.total_seconds()),
        httponly=True,
        secure=settings.SESSION_COOKIE_SECURE,
        samesite="Lax",
    )


def _counters(request: HttpRequest, email: str) -> list[tuple[Rate, str]]:
    account, browser = _account(email), _known_browser(request, email)
    if browser:
        return [(WRONG_PAIR, f"{account} {browser}")]
    where = client_key(request)
    return [(WRONG_PAIR, f"{account} {where}"), (WRONG_BURST, where), (WRONG_ADDRESS, where), (WRONG_ACCOUNT, account)]


def _count(rate: Rate, key: str) -> None:
    try:
        rate_take(rate, key)
    except Problem:
        return  # counted up already; the next try is refused before the password is looked at


def _known_browser(request: HttpRequest, account: str) -> str:
    held = _cookie(request)
    return f"browser {held['id']}" if _account(account) in held["accounts"] else ""


def _cookie(request: HttpRequest) -> dict[str, list[str] | str]:
    try:
        held = signing.loads(request.COOKIES.get(COOKIE, ""), salt=_SALT, max_age=COOKIE_LASTS)
    except signing.BadSignature:
        held = None
    return held if isinstance(held, dict) else {"id": secrets.token_urlsafe(12), "accounts": []}


def _account(email: str) -> str:
    return hashlib.sha256(email.strip().lower().encode()).hexdigest()[:24]
