"""A processor of one's own (T7): its micro-programs run, a true trace agrees, and a wrong one names what is off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compiler import probing, targets
from compiler.errors import ModelError
from compiler.isa.element import NUMPY
from compiler.isa.instruction import Op
from compiler.isa.table import TABLE
from compiler.probing.check import words
from compiler.probing.fit import figure, varied
from compiler.simulator import simulate

PEBBLE = Path(__file__).parent / "pebble.toml"


@pytest.fixture(scope="module")
def pebble():
    target = targets.read(PEBBLE)
    return target, probing.micro_programs(target)


@pytest.mark.parametrize("name", [*targets.names(), str(PEBBLE)])
def test_every_instruction_is_probed_by_programs_that_run(name):
    target = targets.resolve(name)
    programs = probing.micro_programs(target)
    probed = {i.opcode for p in programs for i in p.binary.rows}
    assert probed == {op for op, spec in TABLE.items() if target.unit(spec.unit).instances}
    for program in programs:
        feeds = {p.name: np.zeros(p.shape, NUMPY[p.dtype]) for p in program.binary.ports if not p.output}
        _, counters = simulate(program.binary.to_bytes(), feeds, target)
        assert counters.cycles == program.binary.latency


def test_a_processor_that_is_as_its_file_says_is_right(pebble):
    target, programs = pebble
    verdicts = probing.check(target, programs, probing.predicted_rows(target, programs))
    assert all(v.ok and v.measured == v.rows == v.right for v in verdicts)
    assert {v.instruction for v in verdicts} == {op.name for op in TABLE}


@pytest.mark.parametrize(
    ("path", "value", "instruction"),
    [
        ("weights.bytes_per_cycle", 7, "LOADW"),
        ("weights.ports.a", 3, "LOADW"),
        ("matrix.alus", 1, "MATMUL"),
        ("matrix.ports.b", 1, "MATMUL"),
        ("matrix.ports.c", 1, "MATMUL"),
        ("matrix.ports.out", 1, "MATMUL"),
        ("vector.alus", 3, "VECTOR"),
        ("vector.lanes", 12, "VECTOR"),
        ("passes.erf", 5, "VECTOR"),
        ("vector.ports.a", 1, "VECTOR"),
        ("move.latency", 40, "GATHER"),
        ("move.ports.out", 2, "MOVE"),
        ("link_in.bytes_per_cycle", 5, "RECV"),
        ("link_out.latency", 1, "SEND"),
        ("external.bytes_per_cycle", 9, "FETCH"),
        ("control.latency", 3, "BRANCH"),
    ],
)
def test_a_wrong_figure_is_named_with_the_value_that_fits(pebble, path, value, instruction):
    target, programs = pebble
    trace = probing.predicted_rows(varied(target, path, value), programs)
    found = {v.instruction: v for v in probing.check(target, programs, trace)}
    verdict = found[instruction]
    assert not verdict.ok
    assert verdict.explained == verdict.measured
    [change] = verdict.changes
    assert (change.path, change.stated) == (path, figure(target, path))
    assert change.low <= value <= change.high
    assert all(
        v.ok for v in found.values() if TABLE[Op[v.instruction]].unit != path.split(".")[0] and "passes" not in path
    )


def test_two_wrong_figures_of_one_unit_are_both_named(pebble):
    target, programs = pebble
    true = varied(varied(target, "vector.alus", 2), "vector.latency", 30)
    [verdict] = [
        v for v in probing.check(target, programs, probing.predicted_rows(true, programs)) if v.instruction == "VECTOR"
    ]
    assert {c.path for c in verdict.changes} == {"vector.alus", "vector.latency"}
    assert verdict.explained == verdict.measured


@pytest.mark.parametrize("number", range(0, 120, 17))
def test_one_wrong_row_is_found_and_no_other(pebble, number):
    target, programs = pebble
    trace = probing.predicted_rows(target, programs)
    wrong = trace[number]
    trace[number] = replace(wrong, cycles=wrong.cycles + 1)
    off = [v for v in probing.check(target, programs, trace) if not v.ok]
    assert [v.instruction for v in off] == [wrong.instruction]
    [finding] = off[0].wrong
    assert (finding.program, finding.number, finding.measured - finding.predicted) == (wrong.program, wrong.number, 1)
    text = "\n".join(words(off[0]))
    assert TABLE[Op[wrong.instruction]].cycles_text in text
    assert f"{wrong.program} #{wrong.number}" in text


def test_what_was_not_measured_is_said_and_proves_nothing(pebble):
    target, programs = pebble
    trace = [
        r if r.instruction == "MOVE" else replace(r, cycles=None) for r in probing.predicted_rows(target, programs)
    ]
    verdicts = probing.check(target, programs, trace)
    assert all(v.ok for v in verdicts)
    assert [v.instruction for v in verdicts if v.measured] == ["MOVE"]
    assert any("not measured" in words(v)[0] for v in verdicts)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("cycles", "time", 1), "must begin with the heading"),
        (lambda text: text.replace(",", ";"), "not 'program;number;instruction;operands;cycles'"),
        (lambda text: text[:0], "not 'nothing'"),
        (lambda text: text + "m" * 200_000 + ",0,MOVE,x,1\n", "field larger than field limit"),
        (lambda text: text + "a,b\n", "2 columns where there should be 5"),
        (lambda text: text + "move-1,0,MOVE,x,1.5\n", "cycles must be a whole number, not '1.5'"),
        (lambda text: text + "move-1,0,MOVE,x,-1\n", "cycles must be a whole number, not '-1'"),
        (lambda text: text + "nothing-1,0,MOVE,x,1\n", "in no micro-program of this processor"),
        (lambda text: text + text.splitlines()[-1] + "\n", "stands there twice"),
        (lambda text: text.replace("count=1x1", "count=2x1", 1), "emit the programs again"),
    ],
)
def test_a_trace_that_cannot_be_read_is_told_what_is_wrong(pebble, tmp_path, change, message):
    target, programs = pebble
    path = tmp_path / "trace.csv"
    path.write_text(change(probing.write_trace(probing.predicted_rows(target, programs))))
    with pytest.raises(ModelError) as refused:
        probing.check(target, programs, probing.read_trace(path))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "  \n" + text.replace("\n", "\n,,,,\n\n"),
        lambda text: text.replace("program,number,", "program, number ,"),
    ],
)
def test_a_trace_may_come_from_a_spreadsheet(pebble, tmp_path, change):
    target, programs = pebble
    rows = probing.predicted_rows(target, programs)
    path = tmp_path / "trace.csv"
    path.write_bytes(change(probing.write_trace(rows)).encode())
    assert probing.read_trace(path) == rows


@pytest.mark.parametrize(
    ("instruction", "cycles", "term"),
    [
        ("MATMUL", lambda row, i: row.cycles + i.count1, "+ count1"),
        ("MATMUL", lambda row, i: row.cycles + 2 * i.count1, "+ 2 x count1"),
        ("MATMUL", lambda row, i: row.cycles + i.count2, "+ count2"),
        ("VECTOR", lambda row, i: row.cycles - (-i.count2 // 4), "+ 1/4 x count2"),
        ("MOVE", lambda row, i: row.cycles - (-i.count1 // 16), "+ 1/16 x count1"),
        ("LOADW", lambda row, i: max(row.cycles, 8 + 2 * i.count1), "max(..., 2 x count1)"),
    ],
)
def test_a_term_that_the_formula_lacks_is_named(pebble, instruction, cycles, term):
    target, programs = pebble
    rows = {p.name: p.binary.rows for p in programs}
    trace = [
        replace(
            row, cycles=cycles(row, rows[row.program][row.number]) if row.instruction == instruction else row.cycles
        )
        for row in probing.predicted_rows(target, programs)
    ]
    (verdict,) = [v for v in probing.check(target, programs, trace) if not v.ok]
    assert verdict.lacks[0] == term
    assert words(verdict)[-1].startswith(
        f"  no figure of the file explains it; a term that the formula lacks does: {term}"
    )


def test_no_term_is_named_where_a_figure_explains_all_or_nothing_does(pebble):
    target, programs = pebble
    other = varied(target, "matrix.alus", 1)
    verdicts = probing.check(target, programs, probing.predicted_rows(other, programs))
    assert [v.lacks for v in verdicts if not v.ok] == [()]
    odd = [
        replace(row, cycles=row.cycles + n * n % 7) for n, row in enumerate(probing.predicted_rows(target, programs))
    ]
    assert not any(v.lacks for v in probing.check(target, programs, odd) if v.instruction in ("MATMUL", "VECTOR"))
