"""Files that are damaged anywhere: one line that says so and an exit status, never a traceback."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compiler
from apps.cli.main import PARTLY, RIGHT, UNUSABLE, WRONG, main
from apps.ledger.chain import chain_json
from apps.ledger.services import usage_post_batch
from apps.pricing.rating import digest_of
from tests.cast import Cast
from tests.cli.networks import network_write
from tests.cli.test_verify import Papers
from tests.ledger.money import NOW, held, usage, used
from tests.pricing.rating.books import SHIPPED
from tests.tiers import WHOLE

pytestmark = pytest.mark.django_db
GONE = object()
STRANGE = (
    {},
    [],
    "x",
    None,
    0,
    -1,
    True,
    1.5,
    GONE,
    [{}],
    {"number": []},
    "1e999999",
    "NaN",
    "-0",
    "\ud800",
    10**4000,
    "9" * 70,
    [[[[]]]],
    {"": None},
)
ENDS = {RIGHT, WRONG, UNUSABLE, PARTLY}


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a document, but of a list only its first and last part."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if isinstance(value, list) and key not in (0, len(value) - 1):
            continue
        yield (*path, key)
        yield from _places(item, (*path, key))


def _damaged(document: Any, path: tuple[Any, ...], strange: Any) -> Any:
    changed = copy.deepcopy(document)
    place = changed
    for key in path[:-1]:
        place = place[key]
    if strange is GONE:
        del place[path[-1]]
    else:
        place[path[-1]] = strange
    return changed


def _ends(arguments: list[Any], capsys: pytest.CaptureFixture[str], *, may_be_right: bool = True) -> int:
    status = main([str(one) for one in arguments])
    said = capsys.readouterr()
    assert status in ENDS - (set() if may_be_right else {RIGHT, PARTLY}), arguments
    lines = said.err.splitlines() if status == UNUSABLE else said.out.splitlines()
    assert len(lines) == 1 or status in (RIGHT, PARTLY), said
    assert said.err == "" or status == UNUSABLE, said
    return status


def _each(
    folder: Path, name: str, document: Any, arguments: list[Any], capsys: pytest.CaptureFixture[str], every: int = 1
) -> None:
    """Replace one place of the document after another with something else. The whole tries one place in `every`; a change tries
    a third of these, from a random start."""
    kinds = cycle(STRANGE)
    step = every if WHOLE else 3 * every
    for path in list(_places(document))[random.randrange(step) :: step]:
        changed = _damaged(document, path, next(kinds))
        if "digest" in document and path != ("digest",):  # else its digest is all that is looked at
            changed["digest"] = _digest(changed)
        (folder / name).write_text(json.dumps(changed))
        _ends(arguments, capsys)


def _digest(document: dict[str, Any]) -> str:
    try:
        return digest_of({key: value for key, value in document.items() if key != "digest"})
    except (TypeError, ValueError):  # a float, half a character, a number of thousands of digits
        return ""


def test_a_paper_that_is_damaged_anywhere_is_told_in_a_line(
    tmp_path: Path, cast: Cast, capsys: pytest.CaptureFixture[str]
) -> None:
    papers, place = Papers(tmp_path, cast), tmp_path / "document.json"
    for document, every in ((papers.invoice, 1), (papers.quote, 3)):
        _each(tmp_path, place.name, document, ["verify", place, SHIPPED], capsys, every)
    whole = json.dumps(papers.invoice)
    place.write_text(whole)
    book = tmp_path / "book.json"
    _each(tmp_path, book.name, json.loads(SHIPPED.read_text()), ["verify", place, book], capsys)
    deep = "[" * 900 + "]" * 900
    for text in ("", whole[: len(whole) // 2], "\x00", "null", "[]", f'{{"format":"takt-invoice/1","lines":{deep}}}'):
        place.write_text(text)
        _ends(["verify", place, SHIPPED], capsys, may_be_right=False)
    place.write_text(whole)
    model = tmp_path / "model.onnx"
    for data in (b"", b"\x00" * 9, papers.models[0].read_bytes()[:100]):
        model.write_bytes(data)
        assert _ends(["verify", place, model, SHIPPED], capsys) == PARTLY  # a model of no line
        assert _ends(["report", model, "--book", SHIPPED], capsys) == UNUSABLE


def test_a_chain_that_is_damaged_anywhere_is_told_in_a_line(
    tmp_path: Path, cast: Cast, capsys: pytest.CaptureFixture[str]
) -> None:
    hold = held(cast.organisation)
    used(hold)
    usage_post_batch([usage(hold, key=f"lease:{number}") for number in range(3)], now=NOW)
    chain = json.loads("".join(chain_json(cast.organisation.id, now=NOW)))
    for text in (json.dumps(chain)[:-9], "", "{}", json.dumps({**chain, "organisation": "[" * 5})):
        (tmp_path / "chain.json").write_text(text)
        _ends(["verify", "--chain", tmp_path / "chain.json"], capsys, may_be_right=False)
    _each(tmp_path, "chain.json", chain, ["verify", "--chain", tmp_path / "chain.json"], capsys)


def test_ranges_that_are_damaged_anywhere_are_refused_or_compile(tmp_path: Path) -> None:
    model = compiler.load(str(network_write(tmp_path / "net.onnx", width=16)))
    ranges = json.loads(compiler.calibrate(model, [{"x": np.ones((1, 8), np.float32)}], "int8").to_json())
    kinds, refused = cycle((*STRANGE, -1e308, float("nan"))), 0
    for path in _places(ranges):
        damaged = json.dumps(_damaged(ranges, path, next(kinds)))
        try:
            compiler.compile(model, "lpu", "int8", compiler.Calibration.from_json(damaged))
        except compiler.ModelError:
            refused += 1
    assert refused
    for value in (-1e308, float("nan"), 10**400):
        with pytest.raises(compiler.ModelError, match="the ranges are not readable"):
            compiler.Calibration.from_json(json.dumps(_damaged(ranges, ("ranges", "r", 0), value)))


def test_ranges_of_a_mask_that_is_added_to_a_mask_are_read() -> None:
    found = compiler.Calibration({"r": (-6.805646932770577e38, 37.4)}, {}, seeded=False, count=1)
    assert compiler.Calibration.from_json(found.to_json()).ranges == found.ranges
