"""Copy buttons: template tags that show a value with a button that copies it.

{% copy share_url "Copy the link" %}             only the button
{% digest program.digest %}                      the first 12 characters of a digest
{% identifier contract.pk %}                     the first 8 characters of an id
{% snippet "takt verify invoice.json" %}         a command, code or secret in a box
"""

from __future__ import annotations

from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe

DIGEST_LENGTH, IDENTIFIER_LENGTH = 12, 8  # characters that tell one value from another on a page


def copy(value: object, label: str = "Copy") -> SafeString:
    """{% copy token "Copy the token" %}: a button that copies `value`. `label` is the button's name for screen readers."""
    return _component("copy", value=str(value), label=label)


def digest(value: str | None, length: int = DIGEST_LENGTH, label: str = "Copy the whole digest") -> SafeString:
    """{% digest program.digest %}: the start of a digest and a copy button; "-" if there is no digest."""
    return _component("digest", value=value, short=(value or "")[:length], label=label)


def identifier(value: object, label: str = "Copy the whole ID") -> SafeString:
    """{% identifier contract.pk %}: the start of an id and a copy button."""
    return digest("" if value is None else str(value), IDENTIFIER_LENGTH, label)


def snippet(text: object, title: str = "Command line", label: str = "") -> SafeString:
    """{% snippet command "Command line" %}: text in a box with a copy button. A list is shown with one item per line."""
    lines = [str(line) for line in text] if isinstance(text, list | tuple) else [str(text)]
    return _component("snippet", text="\n".join(lines), title=title, label=label or f"Copy: {title}")


def _component(name: str, **values: object) -> SafeString:
    return mark_safe(render_to_string(f"components/{name}.html", values))  # noqa: S308 - our own templates escape
