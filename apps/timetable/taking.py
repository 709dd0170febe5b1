"""Reserve device time with locks on the affected devices only.

One unlocked read of the timetable decides where the work goes. The chosen devices are then locked and checked again. If
anything was sold or changed in the meantime, the attempt is rolled back and another attempt starts. A refusal needs no
lock, because it was true at the moment of the read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from django.db import connection, transaction

from apps.fleet.models import Pool
from apps.timetable import reading
from apps.timetable.admission import Interval, Limits, Piece, Placement, Refusal, Work, place, place_each
from apps.timetable.expiry import expired_release
from apps.timetable.instants import instant_of
from apps.timetable.locking import devices_lock, one_lock, some_lock
from apps.timetable.reading import Fit, RunsOn
from apps.timetable.refusals import CapacityTaken, PoolChanged
from apps.timetable.selectors import Demand, alternatives_find

OTHERS_MOST = 16  # devices that are passed over because others are selling their time, before one waits for the best
TRIES = 16  # each that fails means that somebody else sold or changed something; then all devices are locked

T = TypeVar("T")
Store = Callable[[Sequence[Piece]], T]


class _Changed(Exception):
    """Raised if time or a device that this attempt relies on was sold, moved or deactivated."""


def capacity_take(
    *, pool: Pool, demands: Sequence[Demand], windows: Sequence[int], now: datetime, store: Store[T]
) -> T:
    """Place the demands in order, in the caller's transaction. Return the result of `store` for all pieces.

    `windows`: the maximum window counts per demand, tried in this order. `store` runs under the locks of the pieces'
    devices. Raises CapacityTaken, PoolChanged and CapacityBusy.
    """
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError("capacity_take needs a transaction that holds the locks")
    if any(demand.duration <= 0 for demand in demands):
        raise ValueError("a reservation takes more than no time")
    if len(demands) == 1 and windows[0] == 1:
        taken = _take_first(pool, demands[0]._replace(windows_max=1), now, store)
        if taken is not None:
            return taken
    for _ in range(TRIES):
        pieces = _placed(pool, demands, windows, now)
        try:
            with transaction.atomic():
                devices = {UUID(piece.device) for piece in pieces}
                if some_lock(pool, devices) != devices or _is_taken(pool, pieces, now):
                    raise _Changed
                return _stored(pieces, store, now)
        except _Changed:
            continue
    devices_lock(pool)
    return _stored(_placed(pool, demands, windows, now), store, now)


def _stored(pieces: Sequence[Piece], store: Store[T], now: datetime) -> T:
    # The caller must hold the locks of the pieces' devices.
    expired_release(pieces, now=now)
    return store(pieces)


def _placed(pool: Pool, demands: Sequence[Demand], windows: Sequence[int], now: datetime) -> list[Piece]:
    _is_taken(pool, [], now)
    limits = [[demand._replace(windows_max=most).limits(now=now) for most in windows] for demand in demands]
    works = [[demand._replace(windows_max=most).work() for most in windows] for demand in demands]
    start = instant_of(min(one[0].not_before for one in limits))
    end = instant_of(max(one[0].not_after for one in limits))
    found = place_each(list(zip(works, limits, strict=True)), reading.gaps_of_pool(pool.pk, start, end, now=now))
    pieces: list[Piece] = []
    for demand, placed in zip(demands, found, strict=False):
        if isinstance(placed, Refusal):
            last = demand._replace(windows_max=windows[-1])
            raise CapacityTaken(
                pool=pool, refusal=placed, alternatives=alternatives_find(pool=pool, demand=last, now=now)
            )
        pieces += placed.windows
    return pieces


def _is_taken(pool: Pool, pieces: Sequence[Piece], now: datetime) -> bool:
    runs_on, is_taken = reading.taken_since(pool.pk, pieces, now=now)
    _runs_on_check(pool, runs_on)
    return is_taken


def _runs_on_check(pool: Pool, runs_on: RunsOn) -> None:
    if runs_on != (pool.processor_id, pool.power_percent):
        raise PoolChanged(pool)


def _take_first(pool: Pool, demand: Demand, now: datetime, store: Store[T]) -> T | None:
    work, limits = demand.work(), demand.limits(now=now)
    search: _Search | None = None
    for _ in range(TRIES):
        if search is None or not search.fits:
            search = _search(pool, work, limits, now)
        if search is None:
            return None
        try:
            with transaction.atomic():
                return _stored(search.pieces(now), store, now)
        except _Changed:
            continue
    return None


class _Search:
    def __init__(
        self, pool: Pool, work: Work, limits: Limits, spans: Sequence[Interval], fits: dict[UUID, Fit]
    ) -> None:
        self.pool, self.work, self.limits, self.spans = pool, work, limits, spans
        self.fits = {device: fit.start for device, fit in fits.items()}
        # Devices that were not read have no start before this instant.
        self.known = limits.not_after if len(fits) < reading.FITS_MOST else max(self.fits.values())
        _runs_on_check(pool, next(iter(fits.values())).runs_on)

    def pieces(self, now: datetime) -> Sequence[Piece]:
        best = sorted(self.fits, key=lambda key: (self.fits[key], key))
        device = one_lock(self.pool, best[:OTHERS_MOST])
        if device is None:
            del self.fits[best[0]]
            raise _Changed
        placed = self._at(device)
        if not _is_taken(self.pool, placed, now):
            return placed
        worse = best[best.index(device) + 1 :]
        next_best = self.fits[worse[0]] if worse else self.known
        self._look_again(device, now)
        if self.fits.get(device, self.known + 1) > next_best:
            raise _Changed
        return self._at(device)

    def _at(self, device: UUID) -> Sequence[Piece]:
        start = self.fits[device]
        free = {str(device): [Interval(start, start + self.work.length(self.work.count))]}
        placed = place(self.work, free, self.limits)
        assert isinstance(placed, Placement), "a window of the stated length holds the work"
        return placed.windows

    def _look_again(self, device: UUID, now: datetime) -> None:
        del self.fits[device]
        fresh = reading.first_fit(device, self.spans, self.work.length(self.work.count), now=now)
        if fresh is not None:
            self.fits[device] = fresh.start


def _search(pool: Pool, work: Work, limits: Limits, now: datetime) -> _Search | None:
    for spans in limits.spans():
        for few in _growing(spans):
            fits = reading.first_fits(pool.pk, few, work.length(work.count), now=now)
            if fits:
                return _Search(pool, work, limits, few, fits)
    return None


def _growing(spans: Sequence[Interval]) -> Iterator[Sequence[Interval]]:
    at, many = 0, 1
    while at < len(spans):
        yield spans[at : at + many]
        at, many = at + many, many * 4
