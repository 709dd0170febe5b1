"""A reservation table: when one resource is taken, in cycles of an II that repeats.

Spans are half-open and kept merged, so a resource in steady use is a handful of spans. A cycle is absolute; what is taken
at ``at`` is taken at every ``at + i * II``. Source: the modulo reservation table of Rau, "Iterative Modulo Scheduling".
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

ONCE = 1 << 60  # the II of a schedule that is not repeated
SPANS = 24  # free spans that are looked at for the one that fits best


class ReservationTable:
    """Taken spans of one II, sorted."""

    __slots__ = ("_full", "ends", "ii", "starts")

    def __init__(self, ii: int) -> None:
        self.ii = ii
        self.starts: list[int] = []
        self.ends: list[int] = []
        self._full: dict[int, tuple[int, int]] = {}  # by beats: cycles at none of which a span of so many can start

    def find(self, at: int, beats: int) -> int | None:
        """The first cycle from ``at`` on with ``beats`` free cycles behind it; None when no gap is as long."""
        starts, ends, ii = self.starts, self.ends, self.ii
        if not starts:
            return at if beats <= ii else None
        x = at % ii
        if x >= ends[-1] and starts[0] + ii - x >= beats:  # behind everything: what is placed in order asks for
            return at
        base = at - x
        i = bisect_right(starts, x)
        free = ends[i - 1] if i and ends[i - 1] > x else x
        if (starts[i] if i < len(starts) else starts[0] + ii) - free >= beats:  # where it is asked for, or next to it
            return base + free
        return self._scanned(base, x, beats)

    def _scanned(self, base: int, x: int, beats: int) -> int | None:
        """The first such cycle from ``base + x`` on, span by span through this II and the next."""
        starts, ends, ii = self.starts, self.ends, self.ii
        for _ in range(2):
            low, high = self._full.get(beats, (x, x))
            if low <= x < high:
                x = high
            else:
                low = x
            first = bisect_right(starts, x)
            if first and ends[first - 1] > x:
                x = ends[first - 1]
            for i in range(first, len(starts)):
                if starts[i] - x >= beats:
                    self._full[beats] = (low, x)
                    return base + x
                x = ends[i]
            if starts[0] + ii - x >= beats:
                self._full[beats] = (low, x)
                return base + x
            self._full[beats] = (low, ii)
            base, x = base + ii, 0
        return None

    def again(self, ii: int) -> ReservationTable:
        """The same spans in a table of another II, behind which none of them lies."""
        other = ReservationTable(ii)
        other.starts, other.ends = self.starts.copy(), self.ends.copy()
        return other

    def best_fit(self, at: int, beats: int, slack: int) -> int | None:
        """As ``find``, or a later cycle, by ``slack`` at most, at which the span leaves what is free in fewer pieces."""
        best: tuple[int, int] | None = None
        for low, high in self.gaps(at, at + slack, beats):
            first, last = max(low, at), high - beats
            for start in (first, last) if last <= at + slack else (first,):
                pieces = (start != low) + (start != last)
                if best is None or (pieces, start) < best:
                    best = pieces, start
        return best[1] if best else self.find(at, beats)

    def gaps(self, at: int, until: int, beats: int) -> Iterator[tuple[int, int]]:
        """Free spans, whole ones, that have ``beats`` cycles from ``at`` on and begin no later than ``until``; ascending, the
        next ``SPANS`` at most."""
        starts, ends, ii = self.starts, self.ends, self.ii
        if not starts:
            if beats <= ii:
                yield at, at + ii
            return
        base, count = at - at % ii, len(starts)
        i = bisect_right(starts, at - base)
        for n in range(i, i + min(count, SPANS) + 1):
            turn, k = divmod(n, count)
            low = base + (ends[k - 1] if k else ends[-1] - ii) + turn * ii
            if low > until:
                return
            high = base + starts[k] + turn * ii
            if high - max(low, at) >= beats:
                yield low, high

    def hit(self, at: int, beats: int) -> int | None:
        """Where a taken span begins that meets ``[at, at + beats)``; None when all of it is free."""
        starts, ends, ii = self.starts, self.ends, self.ii
        if not starts or beats <= 0:
            return None
        x = at % ii
        if x >= ends[-1] and starts[0] + ii - x >= beats:
            return None
        i = bisect_right(starts, x) - 1
        if i >= 0 and ends[i] > x:
            return at - x + starts[i]
        i += 1
        if i < len(starts):
            return at - x + starts[i] if starts[i] < x + beats else None
        return at - x + ii + starts[0] if starts[0] + ii < x + beats else None

    def last(self, at: int, beats: int, least: int) -> int | None:
        """The last cycle up to ``at``, not before ``least``, with ``beats`` free cycles behind it."""
        if at < least:
            return None
        starts, ends, ii = self.starts, self.ends, self.ii
        if not starts:
            return at
        x = at % ii
        if x >= ends[-1] and starts[0] + ii - x >= beats:  # behind everything
            return at
        met = self.hit(at, beats)
        if met is None:
            return at
        base = met - met % self.ii
        i = bisect_right(self.starts, met - base) - 1
        while True:
            at = base + self.starts[i] - beats
            if at < least:
                return None
            i -= 1
            if i < 0:
                i, base = len(self.starts) - 1, base - self.ii
            if base + self.ends[i] <= at:
                return at

    def free(self, at: int, beats: int) -> bool:
        """Whether all of ``[at, at + beats)`` is free."""
        starts, ends, ii = self.starts, self.ends, self.ii
        if beats > ii:
            return False
        if not starts or beats <= 0:
            return True
        x = at % ii
        if x >= ends[-1]:
            return starts[0] + ii - x >= beats
        i = bisect_right(starts, x)
        return not (i and ends[i - 1] > x) and starts[i] - x >= beats

    def since(self, at: int, beats: int) -> int | None:
        """Since when all has been free before ``[at, at + beats)``; None where not all of that is free."""
        starts, ends, ii = self.starts, self.ends, self.ii
        if not starts:
            return at + beats - ii if beats <= ii else None
        x = at % ii
        low = ends[-1]
        if x >= low:
            return at - x + low if starts[0] + ii - x >= beats else None
        i = bisect_right(starts, x)
        low = ends[i - 1] if i else low - ii
        return at - x + low if low <= x and starts[i] - x >= beats else None

    def gap(self, at: int) -> int:
        """Free cycles in front of a taken cycle."""
        x = at % self.ii
        i = bisect_left(self.starts, x)
        if i == len(self.starts) or self.starts[i] != x:
            return 0
        return x - (self.ends[i - 1] if i else self.ends[-1] - self.ii)

    def idle(self, at: int) -> int:
        """Free cycles right before a cycle, which is free; 0 where it is taken."""
        x = at % self.ii
        i = bisect_right(self.starts, x)
        if not self.starts:
            return at
        before = self.ends[i - 1] if i else self.ends[-1] - self.ii
        return max(0, x - before)

    def take(self, at: int, beats: int) -> None:
        """Take a span that is free."""
        ends = self.ends
        x = at % self.ii
        end = x + beats
        if end > self.ii:
            self._add(x, self.ii)
            self._add(0, end - self.ii)
        elif beats:
            if not ends or x > ends[-1]:
                self.starts.append(x)
                ends.append(end)
            elif x == ends[-1]:
                ends[-1] = end
            else:
                self._add(x, end)

    def _add(self, start: int, end: int) -> None:
        starts, ends = self.starts, self.ends
        if ends and start >= ends[-1]:
            if start == ends[-1]:
                ends[-1] = end
            else:
                starts.append(start)
                ends.append(end)
            return
        i = bisect_left(starts, start)
        joins = i < len(starts) and starts[i] == end
        if i and ends[i - 1] == start:
            if joins:
                ends[i - 1] = ends.pop(i)
                starts.pop(i)
            else:
                ends[i - 1] = end
        elif joins:
            starts[i] = start
        else:
            starts.insert(i, start)
            ends.insert(i, end)

    def give(self, at: int, beats: int) -> None:
        """Give back a span that was taken."""
        self._full.clear()
        x = at % self.ii
        if x + beats > self.ii:
            self._cut(x, self.ii)
            self._cut(0, x + beats - self.ii)
        elif beats:
            self._cut(x, x + beats)

    def _cut(self, start: int, end: int) -> None:
        starts, ends = self.starts, self.ends
        i = bisect_right(starts, start) - 1
        left, right = starts[i], ends[i]
        keep = [(a, b) for a, b in ((left, start), (end, right)) if a < b]
        starts[i : i + 1] = [a for a, _ in keep]
        ends[i : i + 1] = [b for _, b in keep]
