"""All instructions of a kind at once, or one by one: the same results, counters and refusals, on sound and damaged programs."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from compiler.errors import ModelError
from compiler.isa import check
from compiler.isa.binary import Binary
from compiler.isa.resources import Counters
from compiler.simulator import run, simulate
from tests.compiler.oracle import compiled, wide
from tests.compiler.oracle.damage import KINDS
from tests.compiler.oracle.programs import Feed, Sample, samples
from tests.tiers import some

Found = tuple[dict[str, tuple[tuple[int, ...], bytes]], Counters]


@cache
def programs() -> list[Sample]:
    return [*samples(), *compiled.samples(), *wide.samples(every=4)]


@cache
def damaged() -> list[tuple[Sample, str, Binary]]:
    """Programs with one field changed each."""
    rng = np.random.default_rng(11)
    found = []
    for n in range(some(260)):
        sample = programs()[n % len(programs())]
        kind = KINDS[int(rng.integers(len(KINDS)))]
        text, binary = kind(rng, sample.binary)
        found.append((sample, text, binary))
    return found


def _plain(outputs: Feed, counters: Counters) -> Found:
    return {name: (value.shape, value.tobytes()) for name, value in outputs.items()}, counters


def one_by_one(binary: Binary, feed: Feed) -> Found | str:
    """What ``Processor`` makes of one inference; its words when it refuses."""
    try:
        target = run.target_of(binary)
        arrays = run.feed_arrays(binary, feed, None)
        outputs, counters, _ = run.execute(run.loaded(binary, target), [arrays])
    except ModelError as error:
        return str(error)
    return _plain(outputs[0], counters[0])


def together(binary: Binary, feed: Feed) -> Found | None:
    """What the program gives at once; None when it is left to ``Processor``."""
    target = run.target_of(binary)
    found = run.together(binary, target, run.feed_arrays(binary, feed, None))
    return None if found is None else _plain(*found)


def read(binary: Binary) -> Binary | None:
    try:
        return Binary.from_bytes(binary.to_bytes())
    except (ModelError, OverflowError):
        return None


def test_sound_programs_are_taken_at_once_and_give_what_they_give_one_by_one() -> None:
    taken = 0
    for sample in programs():
        found = together(sample.binary, sample.feeds[0])
        if found is not None:
            taken += 1
            assert found == one_by_one(sample.binary, sample.feeds[0]), sample.name
    assert taken > len(programs()) // 2


def test_what_is_taken_at_once_is_what_one_by_one_accepts() -> None:
    taken = refused = 0
    for sample, text, changed in damaged():
        binary = read(changed)
        if binary is None:
            continue
        wanted = one_by_one(binary, sample.feeds[0])
        try:
            found = together(binary, sample.feeds[0])
        except ModelError:  # a target or feeds that no way of running takes
            assert isinstance(wanted, str), (sample.name, text)
            continue
        assert found is None or found == wanted, (sample.name, text)
        taken += found is not None
        refused += isinstance(wanted, str)
    assert taken > some(10)
    assert refused > some(60)


def test_what_is_refused_is_refused_in_the_same_words() -> None:
    for sample, text, changed in damaged()[::4]:
        binary = read(changed)
        wanted = one_by_one(binary, sample.feeds[0]) if binary is not None else ""
        if binary is not None and isinstance(wanted, str):
            with pytest.raises(ModelError) as refusal:
                simulate(changed.to_bytes(), sample.feeds[0])
            assert str(refusal.value) == wanted, (sample.name, text)


def test_malformed_programs_are_refused_with_the_sentence_of_their_first_wrong_instruction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def said() -> list[str]:
        found = []
        for _, _, binary in damaged():
            try:
                Binary.from_bytes(binary.to_bytes())
                found.append("")
            except (ModelError, OverflowError) as error:
                found.append(str(error))
        return found

    at_once = said()
    monkeypatch.setattr(check, "_ordered", lambda _: False)
    assert said() == at_once
    assert sum(map(bool, at_once)) > some(20)
