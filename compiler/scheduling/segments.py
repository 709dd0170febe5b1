"""The order in which guarded work runs: stretches without branches, and what may be skipped between them, properly nested.

Everything of a stretch is there when it begins, so a stretch can be scheduled by itself. As much as possible runs before a
branch, a branch is entered when all that it needs is there, and its two sides follow each other, so that only one is paid.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush

from compiler.ir import Guard
from compiler.ir.guards import Path


@dataclass(frozen=True)
class Event:
    """``run``: a stretch of ``sources``. ``when``: a branch that is skipped unless ``guard`` holds. ``else``: its other side
    begins. ``end``: behind both."""

    kind: str
    sources: tuple[int, ...] = ()
    guard: Guard | None = None


@dataclass
class _Work:
    """What is left to do. ``ready``: sources of which all needs are done, as a heap by path."""

    paths: list[Path]
    needs: list[set[int]]
    done: set[int] = field(default_factory=set)
    ready: dict[Path, list[int]] = field(default_factory=dict)
    users: dict[int, list[int]] = field(default_factory=dict)
    missing: list[int] = field(default_factory=list)

    def begin(self) -> None:
        for number, needs in enumerate(self.needs):
            self.missing.append(len(needs))
            for need in needs:
                self.users.setdefault(need, []).append(number)
            if not needs:
                heappush(self.ready.setdefault(self.paths[number], []), number)

    def take(self, path: Path) -> tuple[int, ...]:
        """All that can run at ``path``, in order."""
        taken = []
        while heap := self.ready.get(path):
            number = heappop(heap)
            taken.append(number)
            self.done.add(number)
            for user in self.users.get(number, ()):
                self.missing[user] -= 1
                if not self.missing[user]:
                    heappush(self.ready.setdefault(self.paths[user], []), user)
        self.ready.pop(path, None)
        return tuple(taken)

    def inner(self, path: Path) -> dict[Guard, int]:
        """Guards directly inside ``path`` behind which something is ready, with the first such source."""
        found: dict[Guard, int] = {}
        for other, heap in self.ready.items():
            if len(other) > len(path) and other[: len(path)] == path and heap:
                guard = other[len(path)]
                found[guard] = min(found.get(guard, heap[0]), heap[0])
        return found

    def complete(self, path: Path) -> bool:
        """Whether all that is left inside ``path`` waits for nothing outside."""
        rest = [n for n, p in enumerate(self.paths) if n not in self.done and p[: len(path)] == path]
        mine = set(rest)
        return all(need in self.done or need in mine for n in rest for need in self.needs[n])


def arrange(paths: list[Path], needs: list[set[int]]) -> list[Event]:
    """Events for sources 0, 1, ... with these paths, each behind what it needs (the needs form no circle)."""
    work = _Work(paths, needs)
    work.begin()
    events: list[Event] = []
    here: Path = ()
    sides: list[bool] = []  # for every guard of ``here``: whether this is its other side
    while len(work.done) < len(paths) or here:
        taken = work.take(here)
        if taken:
            events.append(Event("run", taken))
            continue
        inner = work.inner(here)
        if inner:
            guard = _chosen(inner, here, work)
            events.append(Event("when", guard=guard))
            here, sides = (*here, guard), [*sides, False]
            continue
        assert here, "sources wait for each other"
        left, here = here[-1], here[:-1]
        other = Guard(left.value, not left.holds)
        if not sides.pop() and other in work.inner(here):
            events.append(Event("else", guard=other))
            here, sides = (*here, other), [*sides, True]
        else:
            events.append(Event("end"))
    return events


def _chosen(inner: dict[Guard, int], here: Path, work: _Work) -> Guard:
    """The first guard of whose both sides nothing waits for anything outside; the first one when there is none."""
    order = sorted(inner, key=lambda g: inner[g])
    if len(order) > 1:
        for guard in order:
            if all(work.complete((*here, Guard(guard.value, side))) for side in (True, False)):
                return guard
    return order[0]
