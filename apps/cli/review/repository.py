"""The two sides of a change: the working tree of a repository, and the commit before it."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from compiler.errors import ModelError
from compiler.frontend.reader import POINTER


@dataclass(frozen=True)
class Repository:
    """`root` is the working tree, and `before` a checkout of the commit that it is compared with."""

    root: Path
    before: Path

    def matching(self, pattern: str) -> list[str]:
        """Return the files of either side that match; `*` stands for any characters, also `/`."""
        listed = {*_files(self.root), *_files(self.before)}
        return sorted(name for name in listed if fnmatchcase(name, pattern))

    def is_same(self, name: str) -> bool:
        """Whether a model and the files beside it that begin with its name are the same on both sides."""
        sides = [_beside(root / name) for root in (self.before, self.root)]
        return sides[0].keys() == sides[1].keys() and all(_equal(sides[0][one], sides[1][one]) for one in sides[0])

    def is_same_file(self, path: str) -> bool:
        """Whether a file of the working tree is the same before. One outside the repository counts as the same."""
        here = Path(path)
        if not here.is_relative_to(self.root):
            return True
        there = self.before / here.relative_to(self.root)
        return here.is_file() and there.is_file() and _equal(here, there)

    def fetched(self, root: Path, name: str) -> Path:
        """Return the path of a model on one side. A pointer of Git LFS is replaced by its file, or ModelError is raised."""
        path = root / name
        if _is_pointer(path) and shutil.which("git-lfs"):
            subprocess.run(["git", "lfs", "pull", "--include", name], cwd=root, capture_output=True, check=False)
        if _is_pointer(path):
            side = "after" if root == self.root else "before"
            raise ModelError(
                f"{side} the change it is a Git LFS pointer, and the file could not be fetched; install Git LFS in the job and "
                "let the checkout fetch its files (lfs: true, git lfs pull)"
            )
        return path


@contextmanager
def repository_open(base: str, folder: Path) -> Iterator[Repository]:
    """Check the commit `base` of the repository around `folder` out beside it, for as long as it is needed.

    Raises ModelError if there is no repository or no such commit.
    """
    root = Path(
        _git(folder, "rev-parse", "--show-toplevel", said="it is no Git repository; run takt review inside one")
    )
    wrong = f"--base {base}: there is no such commit here; fetch it (git fetch, or fetch-depth: 0 in the checkout)"
    commit = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{base}^{{commit}}", said=wrong)
    with tempfile.TemporaryDirectory(prefix="takt-review-") as made:
        before = Path(made) / "before"
        said = f"--base {base}: it cannot be checked out"
        _git(root, "worktree", "add", "--quiet", "--detach", str(before), commit, said=said)
        try:
            yield Repository(root.resolve(), before.resolve())
        finally:
            _git(root, "worktree", "remove", "--force", str(before), said="the checkout cannot be removed")


def _git(folder: Path, *words: str, said: str) -> str:
    try:
        environment = os.environ | {"GIT_LFS_SKIP_SMUDGE": "1"}  # only models that are compared are fetched
        done = subprocess.run(
            ["git", *words],
            cwd=folder,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            env=environment,
        )
    except FileNotFoundError:
        raise ModelError("takt review compares two commits, which needs Git; install it") from None
    if done.returncode:
        reason = " ".join(done.stderr.split())
        raise ModelError(f"{said}{f' ({reason})' if reason else ''}")
    return done.stdout.strip()


def _files(root: Path) -> list[str]:
    words = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    listed = _git(root, *words, said="the files of the repository cannot be listed")
    return [name for name in listed.split("\0") if name and (root / name).is_file()]


def _beside(path: Path) -> dict[str, Path]:
    if not path.is_file():
        return {}
    near = (one for one in path.parent.iterdir() if one.name.startswith(path.name) or one.stem == path.stem)
    return {one.name: one for one in near if one.is_file()}


def _is_pointer(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(POINTER)) == POINTER


def _equal(one: Path, other: Path) -> bool:
    """Whether two files are the same; a pointer of Git LFS is the same as the file that it stands for."""
    return _digest(one) == _digest(other)


def _digest(path: Path) -> str:
    data = path.read_bytes()
    stated = re.search(rb"^oid sha256:([0-9a-f]{64})$", data, re.MULTILINE) if data.startswith(POINTER) else None
    return stated[1].decode() if stated else hashlib.sha256(data).hexdigest()
