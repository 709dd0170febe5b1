"""Decides how many copies of programs to place, and which copies share a device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from apps.planner.datacenter.types import SECOND, DeviceType, Item, NoRoom, Placed, Placer, Scenario, Whole

WHOLE = 1_000_000  # millionths of a device's time
FILLED = 700_000  # a device is planned to be busy for at most this share, so that waits stay short
PIECE = (
    FILLED // 5
)  # a copy that shares its device takes at most this much: small ones pack well, and more of them wait less


def services(scenario: Scenario) -> Whole:
    """Return an array (device types, requests) of the microseconds for which a request would occupy a device."""
    rows = []
    for device in scenario.devices:
        interval = np.array([one.interval for one in scenario.programs], dtype=np.int64)
        drain = np.array([one.latency - one.interval for one in scenario.programs], dtype=np.int64)
        which = scenario.requests.program
        cycles = drain[which] + interval[which] * scenario.requests.executions
        rows.append(-(-cycles * SECOND // device.clock_hz))
    return np.array(rows)


def items_of(scenario: Scenario, *, piece: int = PIECE) -> tuple[Item, ...]:
    """Return at least one copy of every program. The copies of the busiest program come first.

    A copy uses at most `piece` millionths of any device's time.
    """
    which, size = scenario.requests.program, len(scenario.programs)
    sums = [np.bincount(which, weights=row, minlength=size) for row in services(scenario)]
    copies = [(place, [int(one[place]) for one in sums]) for place in range(size)]
    items = []
    for place, sums_here in sorted(copies, key=lambda pair: (-pair[1][0], pair[0])):
        loads = [one * WHOLE // scenario.until for one in sums_here]
        count = max(1, -(-max(loads) // piece))
        duty = tuple(-(-load // count) for load in loads)
        items += [Item(place, duty, scenario.programs[place].memory_bytes)] * count
    return tuple(items)


class _Rooms:
    def __init__(self, devices: Sequence[DeviceType]) -> None:
        self.devices = devices
        self.left = [one.count for one in devices]
        self.placed: list[tuple[int, list[int]]] = []

    def open(self, item: Item) -> int:
        # An item takes a share of a device's time and a share of its memory. The best type minimises the larger
        # share.
        options = []
        for kind, device in enumerate(self.devices):
            shares = (item.duty[kind] / FILLED, item.memory_bytes / device.memory_bytes)
            if self.left[kind] and max(shares) <= 1:
                options.append((max(shares), kind))
        if not options:
            done = sum(len(programs) for _, programs in self.placed)
            raise NoRoom(
                f"The devices have room for only {done:,} copies of programs. Add devices, or reduce the demand."
            )
        kind = min(options)[1]
        self.left[kind] -= 1
        self.placed.append((kind, []))
        return kind

    def result(self) -> list[Placed]:
        return [Placed(kind, tuple(sorted(set(programs)))) for kind, programs in self.placed]


def one_each(items: tuple[Item, ...], devices: tuple[DeviceType, ...]) -> list[Placed]:
    """Place each copy on its own device."""
    rooms = _Rooms(devices)
    for item in items:
        rooms.open(item)
        rooms.placed[-1][1].append(item.program)
    return rooms.result()


def first_fit(items: tuple[Item, ...], devices: tuple[DeviceType, ...]) -> list[Placed]:
    """Place each copy on the first open device with room. If there is no room, open a new device."""
    rooms = _Rooms(devices)
    time, memory, kinds = np.zeros(len(items)), np.zeros(len(items)), np.zeros(len(items), dtype=np.int64)
    homes: dict[int, set[int]] = {}
    for item in items:
        used, mine = len(rooms.placed), homes.setdefault(item.program, set())
        holds = memory[:used] >= item.memory_bytes
        holds[list(mine)] = True
        fits = holds & (time[:used] >= np.array(item.duty)[kinds[:used]])
        at = int(fits.argmax()) if fits.any() else used
        if at == used:
            kinds[used] = rooms.open(item)
            time[used], memory[used] = FILLED, devices[kinds[used]].memory_bytes
        time[at] -= item.duty[kinds[at]]
        memory[at] -= 0 if at in mine else item.memory_bytes
        mine.add(at)
        rooms.placed[at][1].append(item.program)
    return rooms.result()


def dot_product_fit(items: tuple[Item, ...], devices: tuple[DeviceType, ...]) -> list[Placed]:
    """Fill the devices in turn, always with the program whose demand aligns best with the remaining capacity.

    See Panigrahy and others, 2011.
    """
    rooms, kinds = _Rooms(devices), list(dict.fromkeys(items))
    left = np.array(_counted(items, kinds))
    sizes = [
        np.array([(one.duty[kind] / FILLED, one.memory_bytes / device.memory_bytes) for one in kinds])
        for kind, device in enumerate(devices)
    ]
    while left.any():
        filled = [_filled(size, left) if rooms.left[kind] else [] for kind, size in enumerate(sizes)]
        worth = [float(sizes[0][one].max(axis=1).sum()) if one else 0.0 for one in filled]
        best = int(np.argmax(worth))
        if not filled[best]:
            rooms.open(kinds[int(left.argmax())])  # says what is missing
        rooms.left[best] -= 1
        rooms.placed.append((best, [kinds[one].program for one in filled[best]]))
        np.subtract.at(left, filled[best], 1)
    return rooms.result()


def _filled(sizes: npt.NDArray[np.float64], left: npt.NDArray[np.int64]) -> list[int]:
    room, left, sizes = np.ones(2), left.copy(), sizes.copy()
    chosen: list[int] = []
    while True:
        fits = (left > 0) & (sizes <= room + 1e-12).all(axis=1)
        if not fits.any():
            return chosen
        one = int(np.where(fits, sizes @ room, -1.0).argmax())
        room, sizes[one, 1] = room - sizes[one], 0.0
        left[one] -= 1
        chosen.append(one)


def _counted(items: tuple[Item, ...], kinds: list[Item]) -> list[int]:
    counts = dict.fromkeys(kinds, 0)
    for one in items:
        counts[one] += 1
    return list(counts.values())


POLICIES: dict[str, Placer] = {"dot product": dot_product_fit, "first fit": first_fit, "one model each": one_each}


def spare_filled(placed: list[Placed], scenario: Scenario) -> list[Placed]:
    """Return the placed devices and all spare devices. Each spare device copies a placed device, as far as memory allows."""
    found, turn = list(placed), 0
    for kind, device in enumerate(scenario.devices):
        for _ in range(device.count - sum(one.type == kind for one in placed)):
            room, held = device.memory_bytes, []
            for program in placed[turn % len(placed)].programs:
                if scenario.programs[program].memory_bytes <= room:
                    room -= scenario.programs[program].memory_bytes
                    held.append(program)
            found.append(Placed(kind, tuple(held)))
            turn += 1
    return found
