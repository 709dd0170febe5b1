"""The files for forges, run as the forge runs them: models before and after, in a real repository, and a comment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import onnx
import pytest
import yaml

from apps.cli.review.comment import MARK
from tests.compiler.face.test_diff import network
from tests.pricing.rating.books import SHIPPED

ROOT = Path(__file__).parents[2]
FILES = {"github": "github-actions.yml", "gitlab": "gitlab-ci.yml"}
LISTS = {"github": "/repos/team/model/issues/7/comments", "gitlab": "/projects/3/merge_requests/7/notes"}
UPDATES = {"github": "/repos/team/model/issues/comments/", "gitlab": "/projects/3/merge_requests/7/notes/"}


class Comments(BaseHTTPRequestHandler):
    """Comments as both forges keep them: a list in pages, one more by POST, another text by PATCH or PUT."""

    rows: list[dict[str, Any]]
    calls: list[tuple[str, str]]
    status = 200

    def _answer(self, value: object) -> None:
        type(self).calls.append((self.command, self.path))
        data = json.dumps(value).encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _body(self) -> str:
        assert (self.headers["Authorization"] or self.headers["PRIVATE-TOKEN"]).endswith("secret")
        return str(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"])

    def do_GET(self) -> None:
        page = int(self.path.rpartition("page=")[2])
        self._answer(self.rows[(page - 1) * 100 : page * 100])

    def do_POST(self) -> None:
        text = self._body()
        if self.status == 200:
            self.rows.append({"id": len(self.rows) + 1, "body": text})
        self._answer({})

    def do_PATCH(self) -> None:
        self.rows[int(self.path.rpartition("/")[2]) - 1]["body"] = self._body()
        self._answer({})

    do_PUT = do_PATCH  # noqa: N815 - the name that the server calls

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def forge() -> Iterator[tuple[str, type[Comments]]]:
    """The address of a forge with a full page of comments by others, and its comments."""
    others = [{"id": n + 1, "body": "Nice."} for n in range(100)]
    kept = type("Kept", (Comments,), {"rows": others, "calls": []})
    server = HTTPServer(("127.0.0.1", 0), kept)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", kept
    server.shutdown()
    server.server_close()


class Project:
    """A repository with a branch, and the command on the path."""

    def __init__(self, folder: Path) -> None:
        self.work, self.folder = folder / "work", folder
        self.work.mkdir()
        self.git("init", "-q")
        takt = folder / "bin" / "takt"
        takt.parent.mkdir()
        takt.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m apps.cli.main "$@"\n', encoding="utf-8")
        takt.chmod(0o755)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "CI"))},
            "PATH": f"{takt.parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        }

    def git(self, *arguments: str) -> str:
        command = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com", *arguments]
        return subprocess.run(command, cwd=self.work, check=True, capture_output=True, text=True).stdout.strip()

    def model(self, name: str, hidden: int) -> None:
        (self.work / name).parent.mkdir(exist_ok=True)
        onnx.save(network(hidden), self.work / name)

    def write(self, name: str, text: str) -> None:
        (self.work / name).write_text(text, encoding="utf-8")

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "a change")

    def review(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(["takt", "review", "--base", "HEAD~1", *arguments], {})

    def run(self, words: list[str], more: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, cwd=self.work, env=self.environment | more, capture_output=True, text=True, check=False
        )

    def job(self, kind: str, address: str) -> subprocess.CompletedProcess[str]:
        """The script of a forge's file, with what the forge sets."""
        file = yaml.safe_load((ROOT / "docs" / "ci" / FILES[kind]).read_text(encoding="utf-8"))
        event = self.folder / "event.json"
        event.write_text(json.dumps({"pull_request": {"number": 7}}), encoding="utf-8")
        base = self.git("rev-parse", "HEAD~1")
        github = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": address,
            "GITHUB_REPOSITORY": "team/model",
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_TOKEN": "secret",
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"),
            "BASE": base,
        }
        gitlab = {
            "GITLAB_CI": "true",
            "CI_API_V4_URL": address,
            "CI_PROJECT_ID": "3",
            "CI_MERGE_REQUEST_IID": "7",
            "TAKT_COMMENT_TOKEN": "secret",
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": base,
        }
        script = file["jobs"]["review"]["steps"][-1]["run"] if kind == "github" else "\n".join(file["takt"]["script"])
        return self.run(["bash", "-e", "-c", script], github if kind == "github" else gitlab)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Two models, of which the branch widens one, limits it and adds a third."""
    made = Project(tmp_path)
    made.write(
        "takt.toml", f'format = "takt-review/1"\nbook = "{SHIPPED}"\nbudget = "budget.toml"\ndims = {{batch = 2}}\n'
    )
    made.write("budget.toml", "[growth]\ncycles = 1\n")
    for name in ("models/wide.onnx", "same.onnx"):
        made.model(name, 12)
    made.commit()
    made.model("models/wide.onnx", 300)
    made.model("new.onnx", 20)
    made.commit()
    return made


@pytest.mark.parametrize("kind", FILES)
def test_a_change_gets_one_comment_that_later_runs_update(
    kind: str, project: Project, forge: tuple[str, type[Comments]]
) -> None:
    address, kept = forge
    ended = project.job(kind, address)
    assert ended.returncode == 1, ended.stderr
    assert "the comment is created" in ended.stderr
    assert kept.calls == [
        ("GET", f"{LISTS[kind]}?per_page=100&page=1"),
        ("GET", f"{LISTS[kind]}?per_page=100&page=2"),
        ("POST", LISTS[kind]),
    ]
    said = kept.rows[100]["body"]
    assert said.startswith(f"{MARK}\n| model | verdict |\n")
    assert "| models/wide.onnx, batch 2 (lpu, float32) | Over budget: latency grew by " in said
    assert "| new.onnx, batch 2 (lpu, float32) | New: latency " in said
    assert "| same.onnx (lpu, float32) | Unchanged. |" in said
    assert "price per million executions, Standard" in said
    assert "<details>" in said
    shown = (project.folder / "summary.md").read_text() if kind == "github" else ended.stdout
    assert shown in said

    project.model("models/wide.onnx", 12)
    project.git("add", "-A")
    project.git("commit", "-q", "--amend", "-m", "narrow again")
    ended = project.job(kind, address)
    assert ended.returncode == 0, ended.stderr
    assert "the comment is updated" in ended.stderr
    assert kept.calls[-1] == ("PATCH" if kind == "github" else "PUT", f"{UPDATES[kind]}101")
    assert len(kept.rows) == 101
    assert "| models/wide.onnx (lpu, float32) | Unchanged. |" in kept.rows[100]["body"]


def test_a_comment_that_may_not_be_written_is_said_and_changes_no_verdict(
    project: Project, forge: tuple[str, type[Comments]]
) -> None:
    address, kept = forge
    kept.status = 403
    ended = project.job("github", address)
    assert ended.returncode == 1
    assert "takt: the comment is not written: the forge answered 403 to GET" in ended.stderr
    assert "the token may not write comments" in ended.stderr
    assert len(kept.rows) == 100
    ended = project.review("--comment")
    assert "--comment works in GitHub Actions" in ended.stderr


def test_settings_give_each_model_its_own_processor_precision_and_sizes(project: Project) -> None:
    project.write(
        "takt.toml",
        'format = "takt-review/1"\ntarget = "edge"\n'
        '[models.wide]\nfile = "models/*.onnx"\nprecision = "int8"\ndims = {batch = [1, 4]}\n'
        '[models.same]\nfile = "same.onnx"\ndims = {batch = 1}\n',
    )
    ended = project.review("--json", "--progress")
    assert ended.returncode == 0, ended.stderr
    assert "models/wide.onnx" in ended.stderr
    rows = {row["model"]: row for row in json.loads(ended.stdout)}
    assert {name: row["state"] for name, row in rows.items()} == {
        "models/wide.onnx, batch 1 (edge, int8)": "changed",
        "models/wide.onnx, batch 4 (edge, int8)": "changed",
        "same.onnx, batch 1 (edge, float32)": "unchanged",
    }
    assert rows["models/wide.onnx, batch 1 (edge, int8)"]["difference"]["precision"] == "int8"


def test_models_that_are_removed_or_cannot_be_compiled_are_named(project: Project) -> None:
    project.git("rm", "-q", "same.onnx")
    project.write("new.onnx", "no model")
    ended = project.review()
    assert ended.returncode == 2
    assert "| same.onnx (lpu, float32) | Removed. |" in ended.stdout
    assert "| new.onnx, batch 2 (lpu, float32) | Not compared: The file is text" in ended.stdout


def test_a_model_that_could_not_be_compiled_before_counts_as_new(project: Project) -> None:
    project.write("new.onnx", "no model")
    project.commit()
    project.model("new.onnx", 20)
    project.commit()
    ended = project.review("-o", "takt.md")
    assert ended.returncode == 0, ended.stderr
    assert "| New: latency " in ended.stdout
    assert "The model before cannot be compiled: The file is text" in ended.stdout
    assert (project.work / "takt.md").read_text() == ended.stdout


def pointer(data: bytes) -> str:
    from hashlib import sha256

    oid = sha256(data).hexdigest()
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {len(data)}\n"


def test_pointers_of_a_large_file_store_stand_for_their_files(project: Project) -> None:
    """Before the change all three are pointers; the checkout of the change fetched two of them."""
    project.environment["PATH"] = f"{project.folder / 'bin'}:/usr/bin:/bin"  # without Git LFS
    whole = {name: (project.work / name).read_bytes() for name in ("models/wide.onnx", "same.onnx", "new.onnx")}
    for name, data in whole.items():
        project.write(name, pointer(data))
    project.commit()
    (project.work / "same.onnx").write_bytes(whole["same.onnx"])
    project.model("models/wide.onnx", 12)
    project.write("new.onnx", pointer(b"another"))
    project.commit()
    ended = project.review()
    assert ended.returncode == 2
    assert "| same.onnx (lpu, float32) | Unchanged. |" in ended.stdout
    for name, side in (("models/wide.onnx", "before"), ("new.onnx", "after")):
        assert (
            f"| {name}, batch 2 (lpu, float32) | Not compared: {side} the change it is a Git LFS pointer"
            in ended.stdout
        )
    assert "git lfs pull" in ended.stdout.replace("\\", "")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", 'write format = "takt-review/1"'),
        ('format = "takt-review/1"\ntargets = "lpu"', "did you mean target?"),
        ('format = "takt-review/1"\nprecision = "int4"', "write one of float32, float16, bfloat16, int8"),
        ('format = "takt-review/1"\ntarget = "abacus"', "there is no target 'abacus'"),
        ('format = "takt-review/1"\ndims = {batch = 0}', "dims.batch: 0 is out of range"),
        ('format = "takt-review/1"\ndims = {batch = []}', "write at least one size"),
        ('format = "takt-review/1"\n[models.a]\nprecision = "int8"', "models.a.file: write a text"),
        ('format = "takt-review/1"\nbook = "nowhere.json"', "there is no such file"),
        (
            'format = "takt-review/1"\nbudget = "budget.toml"',
            "it limits price.standard, which needs a price book; download one",
        ),
    ],
)
def test_settings_that_make_no_sense_are_said_before_anything_is_compiled(
    text: str, says: str, project: Project
) -> None:
    project.write("budget.toml", "[price]\nstandard = 1\n")
    project.write("takt.toml", text)
    ended = project.review("--progress")
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert ended.stderr.startswith("takt: ")
    assert says in ended.stderr


def test_without_settings_every_model_is_reviewed(project: Project, tmp_path: Path) -> None:
    project.git("rm", "-q", "takt.toml")
    ended = project.review()
    assert ended.returncode == 2
    assert "new.onnx (lpu, float32) | Not compared: The model leaves dimensions open" in ended.stdout


def test_what_is_no_repository_or_commit_is_one_line(project: Project, tmp_path: Path) -> None:
    ended = project.run(["takt", "review", "--base", "0123456"], {})
    assert ended.returncode == 2
    assert "--base 0123456: there is no such commit here; fetch it" in ended.stderr
    assert project.git("worktree", "list").count("\n") == 0
    outside = subprocess.run(
        ["takt", "review", "--base", "HEAD"], cwd=tmp_path, env=project.environment, capture_output=True, text=True
    )
    assert outside.returncode == 2
    assert "takt: it is no Git repository; run takt review inside one" in outside.stderr
