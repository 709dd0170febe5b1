"""Which bytes, lines and fetches a piece of a stream is, by walking its points one by one."""

from __future__ import annotations

from itertools import product

from compiler.isa.stream import Loop, Stream


def point(nest: tuple[Loop, ...], index: int) -> tuple[int, ...]:
    """Coordinates of a flattened index."""
    found = []
    for loop in reversed(nest):
        found.append(index % loop.extent)
        index //= loop.extent
    return tuple(reversed(found))


def elements(
    stream: Stream, g0: int, rows: tuple[int, int], inner: tuple[int, int]
) -> list[list[tuple[int | None, tuple[int, ...]]]]:
    """Per row and inner point: the address (None where a guard gives the fill) and the coordinates of all loops."""
    table = []
    batch = point(stream.g0, g0 if stream.g0 else 0)
    for r in range(rows[0], rows[0] + rows[1]) if stream.g1 else [0]:
        line = []
        for c in range(inner[0], inner[0] + inner[1]) if stream.g2 else [0]:
            at = batch + point(stream.g1, r) + point(stream.g2, c)
            address: int | None = stream.base
            for loop, coordinate in zip(stream.loops, at, strict=True):
                address += loop.stride * coordinate
            for guard in stream.guards:
                value = guard.offset + sum(a * b for a, b in zip(guard.coefficients, at, strict=True))
                if not 0 <= value < guard.extent:
                    address = None
            line.append((address, at))
        table.append(line)
    return table


def addresses(stream: Stream, g0: int, rows: tuple[int, int], inner: tuple[int, int]) -> list[int]:
    return [a for line in elements(stream, g0, rows, inner) for a, _ in line if a is not None]


def _merged(nest: tuple[Loop, ...]) -> tuple[Loop, ...]:
    """Loops of one step dropped; a loop that continues the one inside it merged with it, until nothing changes."""
    loops = [loop for loop in nest if loop.extent > 1]
    changed = True
    while changed:
        changed = False
        for n in range(len(loops) - 1):
            outer, inside = loops[n], loops[n + 1]
            if outer.stride == inside.extent * inside.stride:
                loops[n : n + 2] = [Loop(outer.extent * inside.extent, inside.stride)]
                changed = True
                break
    return tuple(loops)


def _cost(nest: tuple[Loop, ...], points: list[tuple[int, ...]], size: int, line: int | None) -> int:
    """Fetches of a list of points (``line`` given) or elements taken (None), along the innermost loop."""
    if not nest:
        return 1
    if len(nest) == 1:
        if nest[0].stride == 0:
            return 1
        if line is None:
            return len(points)
        span = len(points) * abs(nest[0].stride)  # bytes from the run's first element to where the next one would be
        return min(len(points), -(-span // line))
    groups: dict[int, list[tuple[int, ...]]] = {}
    for p in points:
        groups.setdefault(p[0], []).append(p[1:])
    costs = [_cost(nest[1:], group, size, line) for group in groups.values()]
    if nest[0].stride:
        return sum(costs)
    everything = list(product(*(range(loop.extent) for loop in nest[1:])))
    full = _cost(nest[1:], everything, size, line)
    if any(len(group) == len(everything) for group in groups.values()):
        return full
    return min(full, sum(costs))


def _piece(nest: tuple[Loop, ...], start: int, count: int, size: int, line: int | None) -> int:
    if not nest:
        return 1
    nest = _merged(nest)
    points = [point(nest, n) for n in range(start, start + count)]
    if line is not None:  # lanes that repeat an element share its fetch: only coordinates that lead elsewhere count
        moving = max((n + 1 for n, loop in enumerate(nest) if loop.stride), default=0)
        nest, points = nest[:moving], list(dict.fromkeys(p[:moving] for p in points))
    return _cost(nest, points, size, line)


def taken(stream: Stream, rows: tuple[int, int], inner: tuple[int, int]) -> int:
    """Elements taken from memory: what a stride of 0 repeats is taken once."""
    return _piece(stream.g1, *rows, stream.size, None) * _piece(stream.g2, *inner, stream.size, None)


def fetches(stream: Stream, rows: tuple[int, int], inner: tuple[int, int], line: int) -> int:
    """Line fetches: runs along g2, along g1, or along both when g2 is covered whole; at least all bytes in lines."""
    size = stream.size
    choices = [
        _piece(stream.g2, *inner, size, line) * _piece(stream.g1, *rows, size, None),
        _piece(stream.g1, *rows, size, line) * _piece(stream.g2, *inner, size, None),
    ]
    columns = 1
    for loop in stream.g2:
        columns *= loop.extent
    if stream.g1 and stream.g2 and inner == (0, columns):
        choices.append(_piece(stream.g1 + stream.g2, rows[0] * columns, rows[1] * columns, size, line))
    return max(min(choices), -(-taken(stream, rows, inner) * size // line))
