"""What people are mailed, as the tests read it."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from django.core import mail
from django.utils import timezone

from apps.accounts.mails import mails_send_due

_CHANGING = re.compile(
    rb'csrfmiddlewaretoken" value="[^"]*"|X-CSRFToken": "[^"]*"|datetime="[^"]*"'
    rb"|\d{4}-\d\d-\d\d \d\d:\d\d|/[0-9a-f-]{36}"
)


def sent() -> list[mail.EmailMessage]:
    """Every message so far, the waiting ones among them."""
    mails_send_due(now=timezone.now())
    return list(mail.outbox)


def links_to(address: str) -> list[str]:
    """The paths of the links in the mails to an address, newest first."""
    texts = [message.body for message in sent() if message.to == [address]]
    found = [link for text in reversed(texts) for link in re.findall(r"https?://\S+", str(text))]
    return [urlsplit(link).path for link in found]


def plain(page: bytes) -> str:
    """A page without what differs at every request."""
    return _CHANGING.sub(b"", page).decode()
