"""A program whose notes are damaged is refused by its report in one sentence; what it counts does not depend on them."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import compiler
from compiler.errors import ModelError
from compiler.program import Program
from tests.compiler.face.test_face import two_layers
from tests.tiers import some


@pytest.fixture(scope="module")
def program():
    return compiler.compile(compiler.load(two_layers()[0], {"length": 4}), "lpu")


@settings(max_examples=some(150), deadline=None)
@given(st.data())
def test_notes_that_were_damaged_end_in_a_report_or_a_refusal(program, data):
    text = bytearray(program.binary.notes.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.sampled_from(b'0a"[]{},:-.tn'))
    damaged = Program(replace(program.binary, notes=text.decode("utf-8", "replace")), program.target)
    said = ""
    try:
        assert damaged.report()["resources"] == program.report()["resources"]
    except ModelError as error:
        said = str(error)
    assert said == "" or ("its notes" in said and "\n" not in said)


@pytest.mark.parametrize(
    ("notes", "words"),
    [
        ("[1, 2]", "no table"),
        ("{", "no table"),
        ('{"metadata": {"combined": "x"}}', "no table"),
        ('{"critical": [1]}', "other operations"),
        ('{"rows": [{"kind": "map"}]}', "rows of another kind"),
        ('{"bounds": {"latency": "1"}}', "bounds of another kind"),
        ("[" * 100_000, "no table"),
    ],
)
def test_notes_of_another_shape_are_refused(program, notes, words):
    with pytest.raises(ModelError, match=words):
        Program(replace(program.binary, notes=notes), program.target).report()


def test_a_program_without_notes_has_a_report(program):
    found = Program(replace(program.binary, notes=""), program.target).report()
    assert found["resources"] == program.report()["resources"]
