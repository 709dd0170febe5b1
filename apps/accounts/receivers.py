"""Writes django-allauth's account events to the audit log."""

from __future__ import annotations

from typing import Any

from allauth.account import signals as account
from allauth.mfa import signals as factors
from allauth.mfa.models import Authenticator
from django.dispatch import Signal
from django.http import HttpRequest
from django.utils import timezone

from apps.accounts import services
from apps.accounts.access import CURRENT_ORGANISATION, principal_of_user
from apps.accounts.models import User

KINDS = {
    Authenticator.Type.TOTP: "authenticator app",
    Authenticator.Type.WEBAUTHN: "passkey",
    Authenticator.Type.RECOVERY_CODES: "recovery codes",
}


def connect() -> None:
    """Connect a receiver to every event that affects the security of an account."""
    for signal, action in {
        account.user_logged_in: "session.start",
        account.password_changed: "password.change",
        account.password_set: "password.set",
        account.password_reset: "password.reset",
    }.items():
        _listen(signal, action)
    for signal, action in {
        factors.authenticator_added: "factor.add",
        factors.authenticator_removed: "factor.remove",
        factors.authenticator_reset: "factor.renew",
    }.items():
        _listen(signal, action)
    account.email_confirmed.connect(_confirmed, weak=False)
    account.email_changed.connect(_changed, weak=False)


def _listen(signal: Signal, action: str) -> None:
    def record(request: HttpRequest, user: User, authenticator: Authenticator | None = None, **kwargs: Any) -> None:
        _record(action, request, user, {"kind": KINDS[authenticator.type]} if authenticator else {})

    signal.connect(record, weak=False, dispatch_uid=f"audit {action}")


def _confirmed(request: HttpRequest, email_address: Any, **kwargs: Any) -> None:
    _record("email.confirm", request, email_address.user, {"address": email_address.email})


def _changed(request: HttpRequest, user: User, from_email_address: Any, to_email_address: Any, **kwargs: Any) -> None:
    if from_email_address is not None:  # else it is the first one, which was confirmed
        detail = {"before": from_email_address.email, "after": to_email_address.email}
        _record("email.change", request, user, detail)


def _record(action: str, request: HttpRequest, user: User, detail: dict[str, Any]) -> None:
    principal = principal_of_user(user, request.session.get(CURRENT_ORGANISATION))
    services.audit_record(action=action, now=timezone.now(), principal=principal, subject=user.email, detail=detail)
