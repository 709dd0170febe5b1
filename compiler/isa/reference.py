"""The reference page ``docs/compiler/isa.md``, made from the instruction table: ``python -m compiler.isa.reference``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from compiler.isa.binary import FORMAT, MAGIC, SECTIONS, STATED
from compiler.isa.element import ELEMENTS, SIZE
from compiler.isa.flow import POINTS, ROWS, WHOLE
from compiler.isa.instruction import FIELDS, INSTRUCTION_DTYPE, REDUCERS, bit_range
from compiler.isa.table import COMMON, TABLE, Spec
from compiler.numerics.scalar import SCALAR

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compiler" / "isa.md"

_INTRODUCTION = """\
# The instruction set

This page is made from the instruction table by `python -m compiler.isa.reference`; a test fails when it is not current.

## Time

An instruction that issues at cycle *s* keeps its unit busy for its **beats** B: it reads memory in [s, s + B). Its first
result is written at s + **latency**, and everything it writes can be read from s + latency + B. Beats are the most of the
instruction's own cycles (below) and, for each of its streams, of line touches divided by the unit's ports for that stream.
Touches follow from extents and strides, never from addresses: a run along the innermost loop of `g2` or of `g1` (whichever
is better, or both when the piece covers `g2` whole) costs the bytes that it spans in lines, elements times stride rounded
up, but no more than one touch per element: a line gives whatever of its elements the stride picks, each to as many lanes as
repeat it. What a stride of 0 repeats is fetched once, and a run lies along the innermost loop that moves. So a program's timing
does not depend on where its tensors lie, nor on their values.

In that time it takes its P **items** one after another, evenly. Item i = 0 ... P - 1 is read no earlier than s + floor(i B / P)
and has been read by s + ceil((i + 1) B / P); its result is written no earlier than s + latency + floor(i B / P) and can be
read from s + latency + ceil((i + 1) B / P). Memory is watched in lines, so a line is read from the first item that has an
element in it to the end of the last, and likewise written, and read by others. The next instruction may follow line by line
while this one still runs (chaining: R. M. Russell, "The CRAY-1 computer system", 1978). What the items are stands with the
operands below; an operand that is taken as a whole is a single item.

## What a processor refuses

Memory is watched in lines. In issue order (by cycle, then unit), each of these ends the run with the cycle, the unit, the
instruction and the operation it comes from:

1. an instruction on a unit that is still busy, or that the processor does not have;
2. a read of a line before the last write to it can be read there, or of one that nothing has written;
3. a write to a line that begins before an earlier instruction, or its own other operands, have finished reading the line (an
   operand that is the result's very piece may be overwritten: a lane reads before it writes), or before an earlier write to
   the line can be read;
4. an address outside the program's regions, a write into its constants, a result that puts two values in one place;
   on a processor whose weights all come from external memory, a factor of a plane that lies in the constants;
5. a weight slot that is used before its load has ended (at issue + latency + beats of LOADW), or that a load begins to change
   (at its issue + latency) while products read it or another load fills it, or of another shape;
6. a product that continues sums that are not in its accumulator rows, or starts on rows that still hold some;
7. a tile larger than its unit's; a gathered index outside its dimension; an output sent twice or not completely;
   more arenas than the processor has base registers for;
8. a branch at which, or at whose landing, something is under way, or in a program whose inferences overlap;
9. a program whose head states another latency than its instructions take, or another interval than they allow (below).

## Memory of overlapping inferences

Memory holds constants, states, then `copies` arenas of equal size (the head of the program says how many). Addresses name the
first arena. In inference *i* whatever an operand touches in it lies (*i* mod `copies`) arenas further up; constants and states
never move. Hazards are watched where the bytes really are. An operand lies in the arena with all of its lines or with none,
and none names a line of the arenas behind the first. So a value may be in use for `copies` intervals, though the next
inference runs the same instructions one interval later: what rotating registers do for loops (Rau and others, "Register
allocation for software pipelined loops", 1992; modulo variable expansion, Lam 1988).

Why it exists: each inference in flight has its place in the program, and beside that counter stands one base register, which
steps by one arena and wraps when the counter begins anew. An address generator has an adder for its base already; the region
of a stream, known when it is set up, says whether the register is added. The price is a register and a wire per inference in
flight, and the memory.

## The interval

Inferences that run back to back begin `interval` cycles apart. In each inference

- a unit is taken for the beats of its instruction;
- a weight slot from when a load changes it (issue + latency of LOADW) until the load has ended and the last product has read it;
- accumulator rows from the issue of the product that starts sums to that of the product that completes them;
- a line behind the states from the issue of an instruction that writes a byte of it until that byte has been written and read
  for the last time. What data places anywhere (SCATTER) ends no value.

An interval of k cycles is legal when none of these is taken twice in a cycle if all of it repeats every k cycles (lines of the
arenas: every k x `copies`), and when each inference meets states as the one before leaves them: what touches a line of a state
issues no earlier than, and begins behind the end of, whatever touches it in the inference before, if either changes it.
Inferences of a program with branches follow each other: k is the latency.

A program of format 5 states the shortest legal interval, and a processor refuses any other. Programs of format 4 may state a
longer one that is legal and no longer than their latency. Source: modulo reservation tables, B. R. Rau, "Iterative modulo
scheduling", 1996.

## Streams

An operand is a stream: element type, base address, three nests of loops with byte strides, `g0` (batch), `g1` (rows), `g2`
(inner), guards and a fill value. An instruction names one point of `g0` and a range of consecutive points of `g1` and `g2`,
counted in row-major order. A group without loops is not used by the operand, which is repeated along it. A guard (extent,
offset, one coefficient per loop) gives the fill value in place of memory wherever offset + sum(coefficient x loop) lies
outside [0, extent): padding that is never stored.
"""


_FLOWS = {ROWS: "by rows of `g1`", POINTS: "by elements, row by row", WHOLE: "as a whole"}


def page() -> str:
    """The whole page as Markdown."""
    return "\n".join([_INTRODUCTION, *_word(), *_instructions(), *_programs(), *_container()]) + "\n"


def _word() -> Iterator[str]:
    yield f"## The instruction word\n\n{INSTRUCTION_DTYPE.itemsize} bytes, little-endian;"
    yield "fields that an instruction does not use are 0."
    yield "References to tables are 1 + position, 0 is none.\n\n| bits | field | meaning |\n| --- | --- | --- |"
    for field in FIELDS:
        low, high = bit_range(field.name)
        yield f"| {low}-{high} | `{field.name}` | {field.text} |"
    yield ""


def _instructions() -> Iterator[str]:
    yield "## Instructions\n"
    for spec in TABLE.values():
        yield from _instruction(spec)


def _instruction(spec: Spec) -> Iterator[str]:
    yield f"### {spec.op.name} ({int(spec.op)}), unit `{spec.unit}`\n\n{spec.text}\n"
    yield f"- fields: {', '.join(f'`{name}`' for name in (*COMMON, *spec.fields))}"
    for operand in spec.operands:
        ranges = [f"g1 by range {operand.rows}"] + ([f"g2 by range {operand.inner}"] if operand.inner else [])
        kind = "writes" if operand.write else "reads"
        need = "" if operand.required else " (optional)"
        yield f"- {kind} `{operand.field}`{need}: {', '.join(ranges)}, port `{operand.port}`, {_FLOWS[operand.flow]}"
    if spec.group_text:
        yield f"- items: rows in groups, {spec.group_text}"
    yield f"- cycles: {spec.cycles_text}\n- why it exists: {spec.why}\n"


def _programs() -> Iterator[str]:
    yield "## Scalar programs\n"
    yield "Straight-line steps, each an operator on earlier steps; the last is the result. `arg n` is operand n (-1: the sum or"
    yield "the reduced value), `const` a literal, `index n` the coordinate of loop n; these three cost nothing. Every other step"
    yield "is one operation per element (`muladd`, which rounds after the product and after the sum, two), and as many passes"
    yield "through an arithmetic unit as the target's `passes` says (1 if it says nothing)."
    yield f"Reducers: {', '.join(f'{code} {name}' for code, name in REDUCERS.items())}.\n"
    yield "| code | operator | arguments | on | result |\n| --- | --- | --- | --- | --- |"
    kinds = {"f": "float", "i": "signed", "u": "unsigned", "b": "bool"}
    for op in SCALAR.values():
        on = ", ".join(kinds[kind] for kind in op.kinds)
        yield f"| {op.code} | `{op.name}` | {op.arity} | {on} | {op.result} |"
    yield ""


def _container() -> Iterator[str]:
    sections = ", ".join(name for name, _, _ in SECTIONS)
    yield f"## The container\n\nMagic `{MAGIC.decode().strip()}` and a line feed, format {FORMAT} or {STATED} (see the interval)"
    yield f"as 4 bytes, then these sections, each an 8-byte length and its bytes: {sections}. Element types by number:"
    yield ", ".join(f"{n} `{name}` ({SIZE[name]} bytes)" for n, name in enumerate(ELEMENTS)) + "."


def main() -> None:
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"wrote {PAGE}\n")


if __name__ == "__main__":
    main()
