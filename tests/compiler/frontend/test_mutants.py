"""Damaged models end in a program or in a sentence (``python -m benchmarks.fuzz`` tries thousands)."""

import random
import time
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import compiler
from compiler.frontend import symbolic_dims
from tests.compiler.face.test_diff import network
from tests.compiler.frontend import mutants
from tests.tiers import some

DIGITS = Path(__file__).parents[3] / "samples" / "digits-small.onnx"
EACH = some(67)  # 201 in all


@pytest.mark.parametrize("mutation", mutants.MUTATIONS)
def test_damaged_models_end_in_a_program_or_a_model_error(mutation):
    sources = [
        (network(12, "last", "first").SerializeToString(deterministic=True), {"batch": 2}),
        (DIGITS.read_bytes(), dict.fromkeys(symbolic_dims(DIGITS.read_bytes()), 1)),
    ]
    compiler.compile(compiler.load(*sources[0]))  # what is imported here, no child imports
    found = {}
    for number in range(EACH):
        data, dims = sources[number % 2]
        said = mutants.verdict(mutation(data, random.Random(number)), dims)
        found.setdefault(said, []).append(number)
    assert set(found) <= {mutants.PROGRAM, mutants.REFUSED}, found
    assert len(found) == 2  # not everything is refused at the door


def test_a_child_that_fails_is_seen(monkeypatch):
    """The verdict tells a crash, too much memory and an empty sentence from what is right."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("Relu", ["x"], ["y"])],
            "g",
            [x],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
        )
    )
    assert mutants.verdict(model.SerializeToString(), {}) == mutants.PROGRAM

    def ends(action):
        monkeypatch.setattr(compiler, "load", lambda *_: action())
        return mutants.verdict(b"", {})

    def refused():
        raise compiler.ModelError("")

    assert ends(lambda: onnx.no_such_name).startswith("AttributeError (")
    assert ends(lambda: bytes(4 * mutants.MEMORY)).startswith("MemoryError")
    assert "says nothing" in ends(refused)
    monkeypatch.setattr(mutants, "CPU", 1)
    assert ends(lambda: [time.process_time() for _ in iter(int, 1)]) == "time"
