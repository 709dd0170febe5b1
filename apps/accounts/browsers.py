"""Derives a readable browser name from a user agent."""

from __future__ import annotations

# The first that occurs is it: most browsers also name those whose pages they want to be given.
BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)
LONGEST = 60  # characters of a text that names nothing known


def browser_name(user_agent: str) -> str:
    """Return a name such as "Firefox on Linux". An unknown user agent is truncated."""
    browser = next((name for mark, name in BROWSERS if mark in user_agent), "")
    system = next((name for mark, name in SYSTEMS if mark in user_agent), "")
    if not browser:
        return user_agent[:LONGEST] or "unknown"
    return f"{browser} on {system}" if system else browser
