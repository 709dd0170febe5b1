"""Instructions by kind: each in one, with those that every rule treats alike, and the largest of each standing for all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.errors import ModelError
from compiler.isa.alike import FREE, kinds
from compiler.isa.binary import Binary
from compiler.isa.instruction import Instruction, Op, pack, unpack
from tests.compiler.oracle.programs import samples
from tests.tiers import some

SMALL = {"opcode": st.sampled_from([int(op) for op in Op])} | {
    name: st.sampled_from([0, 1, 8, 12]) for name in (*FREE, "a", "count1", "port", "blocks")
}
TRANSFERS = (Op.RECV, Op.SEND, Op.FETCH)


def fixed(i: Instruction) -> tuple[object, ...]:
    """What members of a kind have in common, as the instruction's own words say it."""
    free = dict.fromkeys(FREE, 0)
    if i.opcode in (Op.LOADW, Op.BRANCH):
        free["start3"] = i.start3
    free["offset"] = i.offset % 8 if i.opcode in TRANSFERS else i.offset
    return tuple(i._replace(**free))


@settings(max_examples=some(100))
@given(st.lists(st.fixed_dictionaries(SMALL), min_size=1, max_size=40))
def test_every_instruction_is_in_one_kind_with_those_like_it(fields: list[dict[str, int]]) -> None:
    records = pack(Instruction(**values) for values in fields)
    rows, found = unpack(records), kinds(records)
    assert sorted(np.concatenate([kind.members for kind in found]).tolist()) == list(range(len(rows)))
    assert [kind.members[0] for kind in found] == sorted(kind.members[0] for kind in found)
    assert len({fixed(kind.first) for kind in found}) == len(found)
    for kind in found:
        mine = [rows[n] for n in kind.members]
        assert kind.first == mine[0]
        assert {fixed(i) for i in mine} == {fixed(kind.first)}
        assert all(getattr(kind.most, name) == max(getattr(i, name) for i in mine) for name in FREE)


@pytest.mark.parametrize("op", TRANSFERS)
def test_transfers_of_one_tensor_are_a_kind_wherever_they_begin(op: Op) -> None:
    places = [Instruction(opcode=int(op), port=1, count1=16, count2=1, offset=64 * n, cycle=n) for n in range(9)]
    assert len(kinds(pack(places))) == 1
    assert len(kinds(pack([*places, places[3]._replace(offset=66, cycle=9)]))) == 2


def test_a_transfer_that_begins_inside_an_element_is_found_among_many() -> None:
    """Its offset is below the largest, which begins at a whole one."""
    tried = 0
    for binary in (sample.binary for sample in samples()):
        rows = list(binary.rows)
        for n, i in enumerate(rows):
            if i.opcode in TRANSFERS and i.offset and binary.streams[(i.a or i.out) - 1].size > 1:
                rows[n] = i._replace(offset=i.offset - 1)
                with pytest.raises(ModelError, match="begins inside an element"):
                    Binary.from_bytes(replace(binary, instructions=pack(rows)).to_bytes())
                tried += 1
                break
    assert tried
