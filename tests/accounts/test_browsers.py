"""Names of browsers on the page of sessions."""

from __future__ import annotations

import pytest

from apps.accounts.browsers import LONGEST, browser_name

WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        (f"Mozilla/5.0 (X11; Linux x86_64) {WEBKIT} Chrome/141.0.0.0 Safari/537.36", "Chrome on Linux"),
        (
            f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {WEBKIT} Chrome/141.0.0.0 Safari/537.36 Edg/141.0",
            "Edge on Windows",
        ),
        (
            f"Mozilla/5.0 (Linux; Android 16; Pixel 9) {WEBKIT} Chrome/141.0.0.0 Mobile Safari/537.36",
            "Chrome on Android",
        ),
        ("Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0", "Firefox on Linux"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Version/18.5 Safari/605.1.15", "Safari on macOS"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) Version/18.5 Safari/604.1", "Safari on iPhone"),
        ("python-requests/2.32.3", "python-requests/2.32.3"),
        ("Firefox/143.0", "Firefox"),
        ("", "unknown"),
    ],
)
def test_a_browser_is_called_by_its_name(user_agent: str, name: str) -> None:
    assert browser_name(user_agent) == name


def test_a_long_text_that_names_nothing_is_cut() -> None:
    assert browser_name("x" * 500) == "x" * LONGEST
