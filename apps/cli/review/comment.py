"""Writes the comment below a pull request or merge request, and updates it at the next change."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

MARK: Final = "<!-- takt review -->"  # how the comment is found again
PAGES_MAX, ROWS, SECONDS = 50, 100, 30
GITHUB_MOST = 65_536 - 1_000  # characters of a comment there; GitLab takes more


class CommentFault(Exception):
    """Raised if the comment cannot be written. The message says what to do."""


@dataclass(frozen=True)
class Forge:
    """Where the comments of one request are: their list, the address of one, the method that updates it, and the headers."""

    comments: str
    one: str
    update: str
    headers: Mapping[str, str]


def forge_of(environment: Mapping[str, str]) -> Forge:
    """Return where this job's comments are, from what GitHub Actions and GitLab CI set. Raises CommentFault."""
    if environment.get("GITHUB_ACTIONS") == "true":
        return _github(environment)
    if environment.get("GITLAB_CI") == "true":
        return _gitlab(environment)
    raise CommentFault(
        "--comment works in GitHub Actions (or what is compatible with it) and in GitLab CI; leave it out here"
    )


def _github(environment: Mapping[str, str]) -> Forge:
    try:
        event = json.loads(Path(environment.get("GITHUB_EVENT_PATH", "")).read_text(encoding="utf-8"))
        number = int(event["pull_request"]["number"])
    except (OSError, ValueError, KeyError, TypeError):
        raise CommentFault("this job is not of a pull request; let the workflow run on: pull_request") from None
    place = f"{_of(environment, 'GITHUB_API_URL')}/repos/{_of(environment, 'GITHUB_REPOSITORY')}/issues"
    token = _of(environment, "GITHUB_TOKEN", "set it to ${{ github.token }} in the step")
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"}
    return Forge(f"{place}/{number}/comments", f"{place}/comments", "PATCH", headers)


def _gitlab(environment: Mapping[str, str]) -> Forge:
    place = f"{_of(environment, 'CI_API_V4_URL')}/projects/{_of(environment, 'CI_PROJECT_ID')}/merge_requests"
    notes = f"{place}/{_of(environment, 'CI_MERGE_REQUEST_IID', 'let the job run for merge requests')}/notes"
    token = _of(environment, "TAKT_COMMENT_TOKEN", "set it to a project access token with the scope api")
    return Forge(notes, notes, "PUT", {"PRIVATE-TOKEN": token})


def _of(environment: Mapping[str, str], name: str, remedy: str = "the forge sets it in its jobs") -> str:
    if not (value := environment.get(name, "")):
        raise CommentFault(f"{name} is not set; {remedy}")
    return value


def comment_write(text: str, forge: Forge, *, is_needed: bool) -> str:
    """Create the comment, or update the one of an earlier run. Return "created", "updated" or "not needed".

    A comment that is not needed is not created, but one that exists is updated. Raises CommentFault.
    """
    body = {"body": f"{MARK}\n{text}"}
    number = _existing(forge)
    if number is not None:
        _call(forge, forge.update, f"{forge.one}/{number}", body)
        return "updated"
    if not is_needed:
        return "not needed"
    _call(forge, "POST", forge.comments, body)
    return "created"


def _existing(forge: Forge) -> int | None:
    for page in range(1, PAGES_MAX + 1):
        rows = _call(forge, "GET", f"{forge.comments}?per_page={ROWS}&page={page}")
        for row in rows:
            if str(row.get("body", "")).startswith(MARK):
                return int(row["id"])
        if len(rows) < ROWS:
            break
    return None


def _call(forge: Forge, method: str, address: str, body: Mapping[str, str] | None = None) -> Any:
    headers = {**forge.headers, "Content-Type": "application/json", "User-Agent": "takt"}
    data = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(address, data, headers, method=method)  # noqa: S310 - the forge's own address
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310 - the same
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        remedy = "; the token may not write comments" if error.code in (401, 403, 404) else ""
        raise CommentFault(f"the forge answered {error.code} to {method} {address}{remedy}") from None
    except (OSError, ValueError) as error:
        raise CommentFault(f"the forge did not answer {method} {address}: {error}") from None
