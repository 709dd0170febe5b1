"""One test per rule: what a processor must not run is refused, with cycle, unit, instruction and operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from compiler.errors import ModelError
from compiler.isa.binary import Binary
from compiler.isa.instruction import Flag, Instruction, Op, pack
from compiler.isa.stream import Loop, Stream
from compiler.simulator import SimulationError, simulate
from tests.compiler.oracle.damage import ordered
from tests.compiler.oracle.programs import (
    Builder,
    Sample,
    accumulator,
    convolution,
    flat,
    product,
    quantised,
    row_major,
    softmax,
)

Edit = Callable[[Instruction], Instruction]


def _edit(binary: Binary, op: Op, which: int, **fields: int) -> Binary:
    """``binary`` with fields of the ``which``-th instruction of a kind changed."""
    places = [n for n, i in enumerate(binary.rows) if i.opcode == op]
    rows = list(binary.rows)
    rows[places[which]] = rows[places[which]]._replace(**fields)
    return ordered(binary, rows)


def _only(binary: Binary, op: Op, which: int = 0) -> Instruction:
    return [i for i in binary.rows if i.opcode == op][which]


def _refused(sample: Sample, binary: Binary, message: str) -> SimulationError:
    with pytest.raises(SimulationError, match=message) as caught:
        simulate(binary.to_bytes(), sample.feeds[0])
    return caught.value


def test_a_busy_unit() -> None:
    sample = product()
    at = _only(sample.binary, Op.MATMUL, 1).cycle
    error = _refused(sample, _edit(sample.binary, Op.MATMUL, 0, cycle=at - 1), f"the unit is busy until cycle {at + 5}")
    assert (error.cycle, error.unit, error.source) == (at, "matrix[0]", "alpha")
    assert sample.binary.rows[error.instruction].opcode == Op.MATMUL


def test_a_read_before_the_data_has_arrived() -> None:
    sample = product()
    at = _only(sample.binary, Op.SEND).cycle
    error = _refused(sample, _edit(sample.binary, Op.SEND, 0, cycle=at - 1), f"reads data that arrives at cycle {at}")
    assert (error.unit, error.source) == ("link_out[0]", "beta")


def test_a_read_of_what_nobody_has_written() -> None:
    sample = convolution()
    rows = [i for i in sample.binary.rows if i.opcode != Op.RECV]
    _refused(sample, replace(sample.binary, instructions=pack(rows)), "that nothing has written")


def test_a_read_of_bytes_beside_what_was_written_in_the_same_line() -> None:
    sample = accumulator()
    streams = tuple(replace(s, g1=(Loop(31, 4),)) for s in sample.binary.streams)
    longer = replace(sample.binary, streams=streams)
    add = _only(longer, Op.VECTOR)
    _refused(sample, _edit(longer, Op.VECTOR, 0, count1=add.count1 + 1), "that nothing has written")


def test_an_overwrite_of_what_is_still_read() -> None:
    """The next inference's input arrives while this one still reads its own."""
    sample = convolution()
    with pytest.raises(SimulationError, match="what is read until cycle"):
        simulate(replace(sample.binary, interval=25).to_bytes(), sample.feeds)


def test_an_overwrite_of_a_write_on_its_way() -> None:
    b = Builder()
    at, there = b.place(4000), b.place(4)
    long, short = b.stream(flat("f32", at, 1000)), b.stream(flat("f32", at + 3996, 1))
    x, z = b.port("x", "f32", (1000,)), b.port("z", "f32", (1,))
    b.add(Op.RECV, out=b.stream(flat("f32", there, 1)), port=z, count1=1, count2=1)
    b.add(Op.RECV, out=long, port=x, count1=1000, count2=1)
    b.add(Op.MOVE, a=b.stream(flat("f32", there, 1)), out=short, count1=1, count2=1)
    b.steps[-1] = b.steps[-1]._replace(cycle=50)
    with pytest.raises(SimulationError, match="what another write completes at"):
        simulate(b.build().to_bytes(), {"x": np.zeros(1000, "f4"), "z": np.zeros(1, "f4")})


def test_a_result_over_its_own_other_operand() -> None:
    b = Builder()
    at = b.place(320 * 1000)
    n = 20_000
    shifted = b.stream(flat("f32", at + 320 * 100, n))
    b.add(Op.RECV, out=b.stream(flat("f32", at, 16_384)), port=b.port("x", "f32", (30_000,)), count1=16_384, count2=1)
    more = b.stream(flat("f32", at + 65_536, 30_000 - 16_384))
    b.add(Op.RECV, out=more, port=1, offset=65_536, count1=30_000 - 16_384, count2=1)
    b.add(Op.MOVE, a=b.stream(flat("f32", at, n)), out=shifted, count1=n, count2=1)
    with pytest.raises(SimulationError, match=r"MOVE: it writes at cycle .* what is read until"):
        simulate(b.build().to_bytes(), {"x": np.zeros(30_000, "f4")})


def test_an_address_outside_the_programs_memory() -> None:
    sample = convolution()
    less = replace(sample.binary, memory=replace(sample.binary.memory, activations=320))
    _refused(sample, less, "outside the program's memory")


def test_a_write_into_the_constants() -> None:
    sample = product()
    weights = _only(sample.binary, Op.LOADW).a
    stream = sample.binary.streams[weights - 1]
    rows, columns = stream.g1[0].extent, stream.g2[0].extent
    wrong = _edit(sample.binary, Op.RECV, 0, out=weights, count1=rows - 14, count2=columns)
    _refused(sample, wrong, "writes into the constants")


def test_two_values_in_one_place() -> None:
    sample = softmax()
    wrong = tuple(replace(s, g1=(Loop(5, 0),)) if len(s.g1) == 1 and not s.g2 else s for s in sample.binary.streams)
    _refused(sample, replace(sample.binary, streams=wrong), "several values in one place")


def test_weights_that_have_not_arrived_or_are_not_there() -> None:
    sample = quantised()
    last = _only(sample.binary, Op.MATMUL, 1).cycle
    _refused(sample, _edit(sample.binary, Op.LOADW, 1, cycle=last), "weights of slot 0 arrive at cycle")
    rows = [i for i in sample.binary.rows if i.opcode != Op.LOADW]
    _refused(sample, replace(sample.binary, instructions=pack(rows)), "slot 0 holds no weights")


def test_a_slot_reloaded_while_it_is_read_or_filled() -> None:
    b = Builder()
    weights = b.constant(np.zeros((4, 4), "f4"))
    at_x, at_y = b.place(60 * 16), b.place(60 * 16)
    sw, sx, sy = (b.stream(row_major("f32", at, rows, 4)) for at, rows in ((weights, 4), (at_x, 60), (at_y, 60)))
    b.add(Op.RECV, out=sx, port=b.port("x", "f32", (60, 4)), count1=60, count2=4)
    b.add(Op.LOADW, a=sw, count1=4, count2=4)
    product = b.add(Op.MATMUL, flags=Flag.FIRST | Flag.LAST, a=sx, out=sy, count1=60, count2=4, count3=4)
    b.add(Op.SEND, a=sy, port=b.port("y", "f32", (60, 4), output=True), count1=60, count2=4)
    valid = b.build()
    feed = {"x": np.zeros((60, 4), "f4")}
    simulate(valid.to_bytes(), feed)
    again = _only(valid, Op.LOADW)
    late = ordered(valid, [*valid.rows, again._replace(cycle=product.cycle + 39)])
    with pytest.raises(SimulationError, match=r"overwritten at cycle .* while products read it"):
        simulate(late.to_bytes(), feed)
    early = ordered(valid, [*valid.rows, again._replace(cycle=product.cycle - 5)])
    with pytest.raises(SimulationError, match=r"it reads slot 0 until cycle .*, which is overwritten at"):
        simulate(early.to_bytes(), feed)


def test_weights_of_another_shape() -> None:
    sample = product()
    _refused(sample, _edit(sample.binary, Op.LOADW, 1, count1=9), r"slot 1 holds \(9, 9\) weights")


def test_sums_that_are_not_there_or_still_held() -> None:
    sample = product()
    _refused(sample, _edit(sample.binary, Op.MATMUL, 1, row=2), "do not hold 6 x 9 sums to continue")
    both = Flag.FIRST | Flag.LAST
    _refused(sample, _edit(sample.binary, Op.MATMUL, 1, flags=both), "still hold sums")


def test_an_output_sent_twice_or_not_completely() -> None:
    sample = product()
    send = _only(sample.binary, Op.SEND)
    rows = [*sample.binary.rows, send._replace(cycle=send.cycle + 100)]
    _refused(sample, ordered(sample.binary, rows), "a second time")
    _refused(sample, _edit(sample.binary, Op.SEND, 0, count1=5), "output 'y' is not sent completely")


@pytest.mark.parametrize(
    ("op", "fields", "message"),
    [
        (Op.MATMUL, {"unit": 4}, "there are 4 units matrix"),
        (Op.LOADW, {"slot": 2}, "there are 2 weight slots"),
        (Op.MATMUL, {"row": 1020}, "accumulator rows to 1026; the plane has 1024"),
    ],
)
def test_a_place_that_the_processor_does_not_have(op: Op, fields: dict[str, int], message: str) -> None:
    sample = product()
    _refused(sample, _edit(sample.binary, op, 0, **fields), message)


def test_no_instruction_covers_more_than_one_tile() -> None:
    big = 1 << 17
    sample = product()
    wide = Stream("f32", 0, (), (Loop(200, 800),), (Loop(200, 4),))
    weights = _only(sample.binary, Op.LOADW).a
    tables = tuple(wide if n == weights - 1 else s for n, s in enumerate(sample.binary.streams))
    wrong = _edit(replace(sample.binary, streams=tables), Op.LOADW, 0, count1=200, count2=200)
    _refused(sample, wrong, "weights of 200 x 200; the plane holds 160 x 160")
    b = Builder()
    at = b.place(big * 4)
    stream = b.stream(flat("f32", at, big))
    b.add(Op.RECV, out=stream, port=b.port("x", "f32", (big,)), count1=big, count2=1)
    with pytest.raises(SimulationError, match="a tile of 524288 bytes; at most 65536"):
        simulate(b.build().to_bytes(), {"x": np.zeros(big, "f4")})


def test_a_refusal_is_a_model_error_that_names_the_operation() -> None:
    sample = product()
    with pytest.raises(ModelError) as caught:
        simulate(_edit(sample.binary, Op.SEND, 0, cycle=0).to_bytes(), sample.feeds[0])
    assert caught.value.node == "beta"
    assert str(caught.value).startswith("beta: cycle 0, link_out[0], instruction ")
