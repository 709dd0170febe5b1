"""The generated pages are current, and the text form of programs names what it cannot read."""

from __future__ import annotations

import pytest

from compiler.errors import ModelError
from compiler.isa import reference
from compiler.isa.assembly import disassemble, instruction_text
from compiler.isa.table import TABLE
from compiler.targets import reference as targets_reference
from tests.compiler.assembler import assemble
from tests.compiler.oracle.programs import product


def test_the_instruction_page_is_current() -> None:
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page(), "run python -m compiler.isa.reference"


def test_the_targets_page_is_current() -> None:
    page = targets_reference.PAGE.read_text(encoding="utf-8")
    assert page == targets_reference.page(), "run python -m compiler.targets.reference"
    assert "| `external.weights` | all |" in page  # a word, not a tile of letters


def test_every_instruction_stands_on_the_page_with_its_reason() -> None:
    page = reference.page()
    for spec in TABLE.values():
        assert spec.text in page
        assert spec.why in page


def test_an_instruction_reads_as_a_line() -> None:
    binary = product().binary
    assert instruction_text(binary.rows[0], binary.sources) == (
        '@0 link_in[0] RECV port=1 out=1 count1=6 count2=20 ; 0 "alpha"'
    )


@pytest.mark.parametrize("line", ["nonsense 1 2", "stream 1: f99", "@x matrix[0] MATMUL ; 0", "program 1: add"])
def test_the_assembler_names_the_line_it_cannot_read(line: str) -> None:
    with pytest.raises(ModelError, match="line 2 of the assembly"):
        assemble(f"timing latency=1 interval=1\n{line}\n")


def test_comments_and_empty_lines_are_skipped() -> None:
    binary = product().binary
    assert assemble("# by hand\n\n" + disassemble(binary), binary.constants) == binary
