"""What becomes of a drawn model: through binary and simulator, beside ONNX Runtime and the standard's reference."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, replace

import numpy as np

import compiler
from compiler.errors import ModelError
from tests.compiler.odd import points, series, shapes, sums
from tests.compiler.odd.draft import Array, Arrays, Draft, Unfit, by_reference

MAKERS = (*points.MAKERS, *shapes.MAKERS, *sums.MAKERS, *series.MAKERS)
PASSED, REFUSED, WRONG, DISPUTED, LOSSY, NOTHING = "passed", "refused", "wrong", "disputed", "lossy", "nothing"


@dataclass(frozen=True)
class Verdict:
    """``kinds``: the operators; ``reason``: what was said, or how results differ."""

    what: str
    kinds: tuple[str, ...] = ()
    reason: str = ""
    opset: int = 0


def drawn(seed: int) -> tuple[Draft, bytes, Arrays, dict[str, int]] | None:
    """Model number ``seed``: one to five operations."""
    d = Draft(np.random.default_rng(seed))
    wanted, tries = d.one(1, 1, 2, 3, 4, 5), 0
    while len(d.nodes) < wanted and tries < 12:
        tries += 1
        try:
            MAKERS[d.whole(0, len(MAKERS) - 1)](d)
        except Unfit:
            continue
    found = d.finished()
    return None if found is None else (d, *found)


def verdict(seed: int, target: str = "lpu", precision: str = "float32") -> Verdict:
    """Draw, compile, run, compare; ``disputed``: ONNX Runtime, operation by operation, says otherwise than the reference;
    ``lossy``: of another precision than float32, whose results are of the right kind but lose more than a tenth."""
    made = drawn(seed)
    if made is None:
        return Verdict(NOTHING)
    d, data, feeds, dims = made
    kinds = tuple(n.op_type for n in d.nodes)
    names = [o.name for o in _outputs(data)]
    theirs = {n: d.values[n] for n in names}
    try:
        graph = compiler.load(data, dims=dims)
        ranges = compiler.calibrate(graph, [feeds], precision) if precision != "float32" else None
        program = compiler.compile(graph, target, precision, ranges)
        ours, counters = compiler.simulate(program.to_bytes(), feeds)
    except ModelError as error:
        if error.__cause__ is not None:
            return Verdict(WRONG, kinds, f"senseless: {error.__cause__!r}", d.opset)
        return Verdict(REFUSED, kinds, str(error).splitlines()[-1], d.opset)
    except Exception:  # noqa: BLE001 - a crash is a wrong answer, whatever it is
        return Verdict(WRONG, kinds, traceback.format_exc(limit=-2), d.opset)
    if not counters.within(program.resources):
        return Verdict(WRONG, kinds, "counters differ from the resources", d.opset)
    if precision != "float32":
        return _lost(ours, theirs, Verdict(PASSED, kinds, "", d.opset))
    gap = difference(ours, theirs)
    if not gap:
        return Verdict(PASSED, kinds, "", d.opset)
    others = by_reference(data, names, feeds)
    if others is not None and not difference(ours, dict(zip(names, others, strict=True))):
        return Verdict(DISPUTED, kinds, gap, d.opset)
    return Verdict(WRONG, kinds, gap, d.opset)


def _lost(ours: dict[str, Array], theirs: dict[str, Array], passed: Verdict) -> Verdict:
    """Kinds of results must be right; how near they are is told, since a rounding more may turn a comparison."""
    for name, expected in theirs.items():
        found = ours[name]
        if (found.shape, found.dtype) != (expected.shape, expected.dtype):
            return replace(passed, what=WRONG, reason=f"{name}: {found.dtype}{list(found.shape)}")
        if expected.dtype.kind == "f" and np.isfinite(expected).all() and expected.size:
            a, b = expected.astype(np.float64), found.astype(np.float64)
            if not np.isfinite(b).all() or np.abs(a - b).max() > 0.1 * np.abs(a).max():
                at = int(np.abs(a - b).argmax())
                return replace(
                    passed, what=LOSSY, reason=f"{name}: {b.reshape(-1)[at]:.4g}, not {a.reshape(-1)[at]:.4g}"
                )
    return passed


def _outputs(data: bytes) -> list[object]:
    import onnx

    return list(onnx.load_from_string(data).graph.output)


def difference(ours: dict[str, Array], theirs: dict[str, Array]) -> str:
    """How two answers differ; '' when they are the same within what float rounding may do."""
    for name, expected in theirs.items():
        found = ours[name]
        if (found.shape, found.dtype) != (expected.shape, expected.dtype):
            return f"{name}: {found.dtype}{list(found.shape)}, not {expected.dtype}{list(expected.shape)}"
        if expected.dtype.kind != "f":
            if not np.array_equal(found, expected):
                return f"{name}: {found.reshape(-1)[:6]}, not {expected.reshape(-1)[:6]}"
            continue
        finite = np.abs(expected[np.isfinite(expected)].astype(np.float64))
        slack = {2: 8e-3, 4: 1e-4, 8: 1e-5}[expected.dtype.itemsize]
        with np.errstate(all="ignore"):
            close = np.isclose(
                found.astype(np.float64),
                expected.astype(np.float64),
                rtol=slack * 4,
                atol=slack * min(1.0, float(finite.max(initial=0.0))) + 1e-6,
                equal_nan=True,
            )
        if not close.all():
            at = np.flatnonzero(~close.reshape(-1))[:4]
            return f"{name}: {found.reshape(-1)[at]}, not {expected.reshape(-1)[at]} at {at} of {found.shape}"
    return ""
