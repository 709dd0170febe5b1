"""What is said of a file from its bytes: all problems at once, and no crash on any bytes."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from apps.registry.inspection.compilable import supported_operators
from apps.registry.inspection.report import inspect
from tests.registry import models

KNOWN = {"": {"MatMul", "Relu", "Add", "Conv", "Gemm", "Flatten", "Mul", "MaxPool", "Softmax"}}


def kinds(data: bytes) -> list[str]:
    return [problem["kind"] for problem in inspect(data, KNOWN)["problems"]]


@pytest.mark.parametrize(("make", "kind"), models.HOSTILE.values(), ids=models.HOSTILE.keys())
def test_each_hostile_file_has_its_problem_named(make: Callable[[], bytes], kind: str) -> None:
    problems = inspect(make(), KNOWN)["problems"]
    assert kind in [problem["kind"] for problem in problems]
    assert all(problem["message"] and problem["remedy"] for problem in problems)


def test_every_unsupported_operator_is_listed_with_its_count_and_first_node() -> None:
    problems = inspect(models.unknown_operators(), KNOWN)["problems"]
    found = {(p["operator"], p["count"], p["node"]) for p in problems if p["kind"] == "unknown-operator"}
    assert found == {("Wibble", 2, "first"), ("com.example.FancyAttention", 1, "third")}


def test_the_cycle_is_named_and_only_the_cycle() -> None:
    problem = next(p for p in inspect(models.cyclic(), KNOWN)["problems"] if p["kind"] == "cycle")
    assert problem["count"] == 2
    assert "forward" in problem["message"]
    assert "backward" in problem["message"]
    assert "last" not in problem["message"]


def test_several_faults_are_reported_together() -> None:
    model = onnx.load_model_from_string(models.cyclic())
    model.graph.node.add(op_type="Wibble", input=["nowhere"], output=["dead"], name="lost")
    model.opset_import[0].version = 3
    assert {"cycle", "unknown-operator", "missing-value", "opset"} <= set(kinds(model.SerializeToString()))


@pytest.mark.parametrize("name", ["digits-small", "digits-large", "digits-batch"])
def test_the_samples_have_no_problem(name: str) -> None:
    report = inspect(models.sample(name), KNOWN)
    assert report["problems"] == []
    assert report["outputs"][0]["name"] == "probabilities"


def test_open_lengths_are_listed_with_the_inputs_that_have_them() -> None:
    assert inspect(models.sample("digits-batch"), KNOWN)["symbolic_dims"] == [{"name": "batch", "inputs": ["image"]}]


def test_an_input_with_a_nameless_length_gets_a_name_for_it() -> None:
    data = models.model([helper.make_node("Relu", ["x"], ["y"])], shape=[-1, 4]).SerializeToString()
    assert inspect(data, KNOWN)["symbolic_dims"] == [{"name": "x.0", "inputs": ["x"]}]


def test_weights_that_are_too_few_bytes_are_found() -> None:
    model = onnx.load_model_from_string(models.small())
    model.graph.initializer[0].raw_data = b"\0" * 12
    assert kinds(model.SerializeToString()) == ["bad-weights"]


@pytest.mark.parametrize("length", [1, 7, 100, 3000, 50_000, 341_000])
def test_a_file_cut_anywhere_is_never_taken_for_whole(length: int) -> None:
    assert kinds(models.sample()[:length]) in (["truncated"], ["not-a-model"])


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_no_bytes_make_it_fall_over(data: bytes) -> None:
    assert isinstance(inspect(data, KNOWN)["problems"], list)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_change_to_a_model_makes_it_fall_over(data: st.DataObject) -> None:
    changed = bytearray(models.small())
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    assert isinstance(inspect(bytes(changed), KNOWN)["problems"], list)


@pytest.mark.parametrize("name", ["digits-small", "digits-large", "digits-batch"])
def test_the_compiler_loads_the_samples_and_names_the_same_open_lengths(name: str) -> None:
    from compiler import frontend

    data = models.sample(name)
    report = inspect(data, supported_operators())
    assert report["problems"] == []
    open_lengths = [row["name"] for row in report["symbolic_dims"]]
    assert list(frontend.symbolic_dims(data)) == open_lengths
    frontend.load(data, dims=dict.fromkeys(open_lengths, 2))


def test_nameless_lengths_are_named_as_the_compiler_names_them() -> None:
    from compiler import frontend

    data = models.model([helper.make_node("Relu", ["x"], ["y"])], shape=[-1, "unk"]).SerializeToString()
    names = [row["name"] for row in inspect(data, supported_operators())["symbolic_dims"]]
    assert names == list(frontend.symbolic_dims(data)) == ["x.0", "x.1"]
