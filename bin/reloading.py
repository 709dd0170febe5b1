"""Restarts after a change of code, for `make dev`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from bin.parts import Part, Stack, say
from bin.services import ServiceError

CODE = ("apps", "compiler", "takt", "bin")  # every process imports these
PAGES = ("templates", "static", "docs")  # read by web, and by the worker that sends mail
PAGE_PARTS = {"web", "worker-mail"}
CODE_SUFFIXES = {".py", ".toml", ".sql", ".json"}
SKIPPED = {"__pycache__", "vendor", "node_modules"}
RESTART_SECONDS = 5.0  # a task that takes longer is ended and handed out again


class Watch:
    """The modification times of the source files under a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.known = dict(self._stamps())

    def changed(self) -> set[Path]:
        """Return the files that were written, added or deleted since the last call, relative to the folder."""
        stamps = dict(self._stamps())
        different = {path for path in stamps.keys() | self.known.keys() if stamps.get(path) != self.known.get(path)}
        self.known = stamps
        return {path.relative_to(self.root) for path in different}

    def _stamps(self) -> Iterator[tuple[Path, int]]:
        for name in (*CODE, *PAGES):
            for folder, folders, files in os.walk(self.root / name):
                folders[:] = [one for one in folders if one not in SKIPPED]
                for file in files:
                    path = Path(folder, file)
                    if name in PAGES or path.suffix in CODE_SUFFIXES:
                        with contextlib.suppress(FileNotFoundError):  # an editor has just replaced it
                            yield path, path.stat().st_mtime_ns


class Reloader:
    """Restarts the processes that have read what changed. `migrate` applies new migrations first."""

    def __init__(self, stack: Stack, watch: Watch, migrate: Callable[[], None]) -> None:
        self.stack, self.watch, self.migrate = stack, watch, migrate

    def restart_changed(self) -> list[str]:
        """Restart what the changes since the last call concern; return the names of the processes."""
        changed = self.watch.changed()
        parts = self._concerned(changed)
        if not parts:
            return []
        first = min(changed).as_posix()
        others = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        say(f"{first}{others} changed: restarting {len(parts)} process{'es' if len(parts) > 1 else ''}")
        if any("migrations" in path.parts for path in changed):
            try:
                self.migrate()
            except ServiceError as error:
                say(str(error))
        self.stack.restart(parts, RESTART_SECONDS)
        return [part.name for part in parts]

    def _concerned(self, changed: set[Path]) -> list[Part]:
        if any(path.parts[0] in CODE for path in changed):
            return self.stack.parts
        return [part for part in self.stack.parts if changed and part.name in PAGE_PARTS]
