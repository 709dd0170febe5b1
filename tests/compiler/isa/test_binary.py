"""The container: bytes and programs are the same thing, and hostile bytes end in a message."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from compiler.errors import ModelError
from compiler.isa.binary import MAGIC, Binary, MemoryMap, StateSlot
from compiler.isa.element import ELEMENTS, NUMPY, SUMS
from compiler.isa.encoding import Reader, Writer, read_program, read_stream, write_program, write_stream
from compiler.isa.instruction import FIELDS, INSTRUCTION_DTYPE, Flag, Instruction, Op, bit_range, pack, unpack
from compiler.isa.program import Program, Step
from compiler.isa.stream import Guard, Loop, Stream
from compiler.isa.tables import Pool, Port
from tests.compiler.oracle.programs import samples
from tests.tiers import some

SAMPLES = [sample.binary for sample in samples()]


def _decode(data: bytes) -> Binary | None:
    try:
        return Binary.from_bytes(data)
    except ModelError:
        return None


@given(st.binary(max_size=200))
@example(b"")
@example(MAGIC)
@example(MAGIC + struct.pack("<IQ", 1, 1 << 63))
def test_any_bytes_end_in_a_message(data: bytes) -> None:
    assert _decode(data) is None
    assert _decode(MAGIC + struct.pack("<I", 1) + data) is None


@settings(deadline=None, max_examples=some(300), suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(SAMPLES), st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=4)
)
def test_changed_bytes_end_in_a_program_that_encodes_to_them_or_in_a_message(
    binary: Binary, changes: list[tuple[float, int]]
) -> None:
    data = bytearray(binary.to_bytes())
    for where, value in changes:
        data[int(where * len(data))] = value
    decoded = _decode(bytes(data))
    assert decoded is None or decoded.to_bytes() == bytes(data)


@settings(deadline=None)
@given(st.sampled_from(SAMPLES), st.floats(0, 1, exclude_max=True))
def test_a_truncated_program_is_refused(binary: Binary, where: float) -> None:
    data = binary.to_bytes()
    assert _decode(data[: int(where * len(data))]) is None


def test_bytes_after_the_end_are_refused() -> None:
    with pytest.raises(ModelError, match="bytes too many"):
        Binary.from_bytes(SAMPLES[0].to_bytes() + b"\0")


def test_a_count_of_four_thousand_million_entries_costs_nothing() -> None:
    data = SAMPLES[0].to_bytes()
    at = data.index(struct.pack("<I", len(SAMPLES[0].streams)) + b"\x01")
    with pytest.raises(ModelError, match="not a valid program"):
        Binary.from_bytes(data[:at] + b"\xff\xff\xff\xff" + data[at + 4 :])


@settings(max_examples=some(100))
@given(st.lists(st.tuples(*[st.integers(0, (1 << field.bits) - 1) for field in FIELDS]), max_size=5))
def test_instructions_survive_packing(rows: list[tuple[int, ...]]) -> None:
    instructions = [Instruction(*row) for row in rows]
    assert unpack(pack(instructions)) == instructions


def test_bit_ranges_are_where_the_bits_are() -> None:
    for field in FIELDS:
        word = int.from_bytes(pack([Instruction(**{field.name: (1 << field.bits) - 1})]).tobytes(), "little")
        low, high = bit_range(field.name)
        assert word == ((1 << (high - low + 1)) - 1) << low
    assert sum(field.bits for field in FIELDS) == 8 * INSTRUCTION_DTYPE.itemsize


numbers = st.integers(-(1 << 39), 1 << 39)


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    dtype = draw(st.sampled_from(ELEMENTS))
    size = NUMPY[dtype].itemsize
    nests = [
        tuple(
            Loop(draw(st.integers(1, 1 << 32) | st.just(1)) % (1 << 32) or 1, draw(numbers) // size * size)
            for _ in range(draw(st.integers(0, 3)))
        )
        for _ in range(3)
    ]
    loops = sum(len(nest) for nest in nests)
    guards = tuple(
        Guard(draw(st.integers(0, (1 << 32) - 1)), draw(numbers), tuple(draw(numbers) for _ in range(loops)))
        for _ in range(draw(st.integers(0, 2)))
    )
    fill = draw(
        st.floats(allow_nan=False, width=16) if SUMS.get(dtype) == "f32" or dtype == "f64" else st.integers(0, 1)
    )
    fill = np.array(fill).astype(NUMPY[dtype]).item()  # a number that the type has
    fill = 0.0 if fill != fill else fill
    return Stream(dtype, draw(numbers) // size * size, *nests, guards, fill)


@settings(max_examples=some(100))
@given(streams())
def test_streams_survive_encoding(stream: Stream) -> None:
    w = Writer()
    write_stream(w, stream)
    r = Reader(w.data)
    assert read_stream(r) == stream
    r.end()


LITERALS = (0.0, -0.0, 1.5, float("inf"), float("-inf"), float("nan"), 3e38)


@pytest.mark.parametrize("value", LITERALS, ids=str)
def test_float_literals_survive_encoding_bit_by_bit(value: float) -> None:
    program = Program((Step("const", (), "f32", value),))
    w = Writer()
    write_program(w, program)
    again = Writer()
    write_program(again, read_program(Reader(w.data)))
    assert again.data == w.data


def test_a_pool_keeps_zero_and_minus_zero_apart_and_merges_equal_entries() -> None:
    pool = Pool()
    references = [pool.program(Program((Step("const", (), "f32", value),))) for value in (0.0, -0.0, 0.0, float("nan"))]
    assert references == [1, 2, 1, 3]
    assert pool.program(Program((Step("const", (), "f32", float("nan")),))) == 3
    assert pool.stream(Stream("f32", 0)) == pool.stream(Stream("f32", 0)) == 1


def _with(binary: Binary, n: int, **fields: int) -> Binary:
    rows = list(binary.rows)
    rows[n] = rows[n]._replace(**fields)
    return replace(binary, instructions=pack(rows))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"opcode": 99}, "there is no operation 99"),
        ({"row": 5}, "RECV does not use row"),
        ({"blocks": 2}, "does not use blocks"),
        ({"out": 77}, "not in streams"),
        ({"out": 0}, "RECV needs out"),
        ({"source": 9}, "source operation"),
        ({"count1": 0}, "empty range"),
        ({"count1": 7}, "beyond its 6 points"),
        ({"offset": 2}, "inside an element"),
        ({"offset": 400}, "beyond the host tensor"),
        ({"port": 0}, "needs a host tensor"),
        ({"port": 3}, "wrong direction"),
        ({"cycle": 10**6}, "not ordered"),
    ],
)
def test_an_instruction_that_is_not_well_formed_is_refused(fields: dict[str, int], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Binary.from_bytes(_with(SAMPLES[0], 0, **fields).to_bytes())


def test_programs_must_take_operands_that_are_there_and_of_their_type() -> None:
    binary = SAMPLES[0]
    n = next(n for n, i in enumerate(binary.rows) if i.flags == Flag.LAST)
    with pytest.raises(ModelError, match="operand 1, which is not given"):
        Binary.from_bytes(_with(binary, n, c=0).to_bytes())
    wrong = replace(binary, programs=(Program((Step("arg", (), "i32", -1),)),))
    with pytest.raises(ModelError, match="takes operand -1 as i32"):
        Binary.from_bytes(wrong.to_bytes())


def test_states_must_lie_in_their_region_and_names_are_unique() -> None:
    binary = SAMPLES[0]
    state = StateSlot("s", 0, "f32", (2,), b"12345678")
    with pytest.raises(ModelError, match="outside the state region"):
        Binary.from_bytes(replace(binary, states=(state,)).to_bytes())
    twice = replace(binary, ports=(*binary.ports, Port("x", "f32", (1,), output=False)))
    with pytest.raises(ModelError, match="two inputs have the name 'x'"):
        Binary.from_bytes(twice.to_bytes())


def test_constants_fill_their_region() -> None:
    wrong = replace(SAMPLES[0], memory=MemoryMap(320, 0, 3200))
    with pytest.raises(ModelError, match="for a region of 320"):
        Binary.from_bytes(wrong.to_bytes())


def test_equal_programs_have_equal_digests() -> None:
    again = Binary.from_bytes(SAMPLES[0].to_bytes())
    assert again == SAMPLES[0]
    assert hash(again) == hash(SAMPLES[0])
    assert again.digest == SAMPLES[0].digest
    assert SAMPLES[0] != SAMPLES[1]
    assert np.array_equal(again.instructions, SAMPLES[0].instructions)


def test_every_operation_has_one_entry_and_only_known_fields() -> None:
    from compiler.isa.table import COMMON, TABLE

    names = {field.name for field in FIELDS}
    assert set(TABLE) == set(Op)
    for spec in TABLE.values():
        assert set(spec.fields) | set(COMMON) <= names
        assert {operand.field for operand in spec.operands} <= set(spec.fields)
