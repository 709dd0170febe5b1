"""The mailbox page of a local installation. The page exists only if MAIL_FOLDER is set."""

from __future__ import annotations

import email
import email.policy
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

SHOWN = 30  # messages, newest first
_LINK = re.compile(r"(https?://[^\s<>\"]+)")


@dataclass(frozen=True)
class Message:
    """A message to show on the mailbox page."""

    at: datetime
    to: str
    subject: str
    text: str

    @property
    def linked(self) -> SafeString:
        parts = _LINK.split(self.text)
        return format_html_join(
            "",
            "{}",
            ((format_html('<a href="{}">{}</a>', one, one) if at % 2 else one,) for at, one in enumerate(parts)),
        )


@login_not_required
@never_cache
@require_GET
def mailbox(request: HttpRequest) -> HttpResponse:
    """Show the newest messages."""
    if not settings.MAIL_FOLDER:
        raise Http404
    return render(request, "accounts/mailbox.html", {"mails": messages_read(Path(settings.MAIL_FOLDER))})


def messages_read(folder: Path) -> list[Message]:
    """Return the newest messages in the folder of Django's file backend, newest first."""
    files = sorted(folder.glob("*.log"), key=lambda file: file.stat().st_mtime, reverse=True)[:SHOWN]
    return [_message(file) for file in files]


def _message(file: Path) -> Message:
    found = email.message_from_bytes(file.read_bytes(), policy=email.policy.default)
    text = str(found.get_content()).rstrip().rstrip("-").rstrip()
    at = datetime.fromtimestamp(file.stat().st_mtime, tz=timezone.get_default_timezone())
    return Message(at=at, to=str(found["To"]), subject=str(found["Subject"]), text=text)
