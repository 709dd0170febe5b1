"""Models in the text form: as good as ONNX, byte for byte, and refused with the line at fault."""

import random
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.ir.text import blobs, digest, file_text, to_text

SMALL = """
# a dense layer with ReLU, written by hand
graph "small" {
  meta "opset" "ai.onnx 17"
  input "x" f32[4, 2]
  const "w" f32[2, 3] = [0.5, -1.0, 2.0,   1.0, 0.25, -3.0]
  const "b" f32[3] = [0.5, 0.0, -1.0]
  value "h" f32[4, 3] = compute "dense/0" of ["dense"] over [4, 3] reduce sum over [2]
    read "x" [l0, l2] read "w" [l2, l1] read "b" [l1]
    expr (arg 0 : f32; arg 1 : f32; mul 0 1 : f32)
    post (arg -1 : f32; arg 2 : f32; add 0 1 : f32)  # the bias
  value "y" f32[4, 3] = compute "relu/1" of ["relu"] over [4, 3]
    read "h" [l0, l1] expr (arg 0 : f32; const 0.0 : f32; max 0 1 : f32)
  output "y"
}
"""


def twin(weights):
    """The ONNX model that SMALL writes down."""
    bias = numpy_helper.from_array(np.array([0.5, 0.0, -1.0], np.float32), "b")
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["h"], "dense"), helper.make_node("Relu", ["h"], ["y"], "relu")],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, weights.shape[0]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 3])],
        [numpy_helper.from_array(weights, "w"), bias],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def with_metadata(text, graph):
    """The same text with the origin that an ONNX file leaves in its graph."""
    meta = "".join(f'  meta "{key}" "{value}"\n' for key, value in graph.metadata.items())
    return re.sub(r'  meta "opset".*\n', lambda _: meta, text)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_text_written_by_hand_gives_the_program_of_its_onnx_twin(precision, tmp_path):
    twins = compiler.load(twin(np.array([[0.5, -1, 2], [1, 0.25, -3]], np.float32)))
    text = with_metadata(SMALL, twins)
    path = tmp_path / "small.txt"
    path.write_text(text, encoding="utf-8")
    expected = compiler.compile(twins, precision=precision).to_bytes()
    assert compiler.compile(compiler.load(text), precision=precision).to_bytes() == expected
    assert compiler.compile(compiler.load(path), precision=precision).to_bytes() == expected
    assert compiler.compile(compiler.load(str(path)), precision=precision).to_bytes() == expected


def test_the_hand_written_program_computes_and_counts():
    program = compiler.compile(compiler.load(SMALL))
    x = np.arange(8, dtype=np.float32).reshape(4, 2) - 3
    outputs, counters = compiler.simulate(program.to_bytes(), {"x": x})
    expected = np.maximum(x @ np.array([[0.5, -1, 2], [1, 0.25, -3]], np.float32) + [0.5, 0, -1], 0)
    np.testing.assert_array_equal(outputs["y"], expected)
    assert counters == program.resources


def test_the_example_of_the_documentation_is_the_same_model():
    page = (Path(__file__).parents[3] / "docs" / "compiler" / "text.md").read_text(encoding="utf-8")
    example = re.search(r"```\n(# y = .*?)```", page, re.DOTALL)
    assert example
    shown, ours = (compiler.compile(compiler.load(text)).resources for text in (example[1], SMALL))
    assert (shown.cycles, shown.operations, shown.io) == (ours.cycles, ours.operations, ours.io)


def test_large_weights_stand_in_a_file_of_arrays(tmp_path):
    graph = compiler.load(twin(np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)))
    path = tmp_path / "model.txt"
    path.write_text(to_text(graph), encoding="utf-8")
    with pytest.raises(compiler.ModelError, match="not given"):
        compiler.load(path)
    np.savez(tmp_path / "model.npz", **blobs(graph))
    assert compiler.load(path) == graph
    (tmp_path / "model.npz").write_bytes(b"PK no archive")
    with pytest.raises(compiler.ModelError, match=r"model\.npz"):
        compiler.load(path)


def test_arrays_of_another_model_are_refused_with_the_line_that_names_them(tmp_path):
    graph = compiler.load(twin(np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)))
    path, stored = tmp_path / "model.txt", blobs(graph)
    path.write_text(to_text(graph), encoding="utf-8")
    line = to_text(graph).splitlines().index(next(t for t in to_text(graph).splitlines() if 'const "w"' in t)) + 1
    for wrong in (np.zeros((40, 3), np.float32), np.zeros((40, 3), np.complex64), np.zeros(3, np.float32)):
        np.savez(tmp_path / "model.npz", **dict.fromkeys(stored, wrong))
        with pytest.raises(compiler.ModelError, match=rf"^Line {line} of the text form: the array .* is another one"):
            compiler.load(path)


@pytest.mark.parametrize(
    ("before", "after", "line", "says"),
    [
        ("takt text 1", "takt text 2", 1, "another version of the text form; version 1 is known"),
        ("takt text 1", "takt txt 1", 1, "text is expected, not 'txt'"),
        ("takt text 1", "tkt text 1", 1, "graph is expected, not 'tkt'"),
        ("takt text 1\n", "", 1, ""),
        ("array KEY", "array " + "0" * 64, 11, "no constant and no state names the array"),
        ("KEY =\n", "KEY =\nAAAA", 11, "which are no f32"),
        ("KEY =\n", "KEY =\n-", 12, "; is expected, not '-'"),
        ("array KEY", "arrow KEY", 11, "nothing may follow the graph but arrays"),
    ],
)
def test_a_file_is_known_by_its_first_line_and_its_arrays_by_their_digests(before, after, line, says, tmp_path):
    weights = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
    graph = compiler.load(twin(weights))
    text = "".join(file_text(replace(graph, metadata={}))).replace(digest(weights), "KEY")
    path = tmp_path / "model.txt"
    assert before in text
    path.write_text(text.replace(before, after).replace("KEY", digest(weights)), encoding="utf-8")
    if not says:  # without the line it is of the first version
        assert compiler.load(path) == replace(graph, metadata={})
        return
    with pytest.raises(compiler.ModelError, match=rf"^Line {line}, column \d+ of the text form: .*{re.escape(says)}"):
        compiler.load(path)


def test_a_text_of_another_encoding_or_of_something_else_is_refused_with_its_line(tmp_path):
    path = tmp_path / "model.txt"
    path.write_bytes(b"takt text 1\n# \xff\n")
    with pytest.raises(compiler.ModelError, match=r"^Line 2 of the text form: it is no UTF-8 text"):
        compiler.load(path)
    path.write_text("numpy==2.0\n", encoding="utf-8")
    with pytest.raises(
        compiler.ModelError, match=r"^Line 1, column 1 of the text form: graph is expected, not 'numpy'"
    ):
        compiler.load(path)
    with pytest.raises(compiler.ModelError, match=r"^Line 1 of the text form: it begins with takt text 1"):
        compiler.load("takt-text 1\n".replace("takt", "talk"))


def test_a_nan_with_bits_of_its_own_keeps_them():
    odd = np.array([0x7FC00001, 0x3F800000], np.uint32).view(np.float32)
    graph = replace(compiler.load(SMALL), constants={**compiler.load(SMALL).constants, "odd": odd})
    graph = replace(graph, types={**graph.types, "odd": graph.types["b"].__class__(graph.types["b"].dtype, (2,))})
    assert compiler.load("".join(file_text(graph))).constants["odd"].tobytes() == odd.tobytes()


def test_a_long_text_of_nothing_is_refused_in_little_memory():
    """A token of a text takes no memory once it is read."""
    text = "takt text 1 graph " + "( " * 2_000_000
    tracemalloc.start()
    with pytest.raises(compiler.ModelError, match=r"^Line 1, column 19 "):
        compiler.load(text)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 3 * len(text)


def test_a_text_leaves_nothing_to_bind():
    with pytest.raises(compiler.ModelError, match="nothing open"):
        compiler.load(SMALL, {"batch": 2})


@pytest.mark.parametrize(
    ("before", "after", "line", "says"),
    [
        ('read "h" [l0, l1] expr', 'read "h" [l0, l1 + 1] expr', 11, "reads outside"),
        ('output "y"', 'output "z"', 13, "not defined"),
        ("f32[4, 2]", "f32[4, -2]", 4, "at most"),
        ("f32[4, 2]", "f32[4000000, 4000000]", 4, "at most"),
        ("max 0 1", "maxi 0 1", 12, "maxi"),
        ("[0.5, 0.0, -1.0]", "[0.5, 0.0]", 6, "2 values"),
        ("over [4, 3]\n", "over [4, 3.5]\n", 11, "whole number"),
        ("reduce sum", "reduce mean", 7, "mean"),
        ('"dense/0"', '"dense\\q"', 7, "JSON"),
        ("l2, l1]", "99999999999999999999999*l2, l1]", 8, "too large"),
        ("}\n", "}\nmore\n", 15, "nothing may follow"),
        ("f32[4, 2]", "f23[4, 2]", "4, column 13", r"'f23' is no element type; did you mean 'f32'\?$"),
        ("compute", "comptue", "7, column 54", r"did you mean 'compute'\?$"),
        ("  value", "  vlaue", "7, column 3", r"cannot begin with 'vlaue'; did you mean 'value'\?$"),
        ("max 0 1", "mx 0 1", "12, column 59", r"'mx' is no operator; did you mean 'max'\?$"),
        ("reduce sum", "reduce sun", "7, column 75", r"'sun' is no reducer; did you mean 'sum'\?$"),
        ("over [4", "ovre [4", "7, column 56", "over is expected, not 'ovre'"),
        ('read "h"', 'read "hh"', 11, r"'hh'.* did you mean 'h'\?$"),
        ('output "y"', 'output "yy"', 13, r"did you mean 'y'\?$"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(before, after, line, says):
    assert before in SMALL
    with pytest.raises(compiler.ModelError, match=rf"^Line {line}(, column \d+)? of the text form: .*{says}"):
        compiler.load(SMALL.replace(before, after).lstrip("\n"))


def test_mutated_texts_give_a_graph_or_a_model_error():
    rng = random.Random(5)
    tokens = re.findall(r'"[^"]*"|-?[\w.]+|\n|[^\w\s]', SMALL)
    verdicts = {True: 0, False: 0}
    for _ in range(400):
        changed = list(tokens)
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(changed))
            changed[place] = rng.choice([*tokens, "", "-1", "0", "1e400", "nan", "i64", "bool", "sort", "gather"])
        try:
            compiler.load("graph " + " ".join(changed[changed.index("graph") + 1 :] if "graph" in changed else changed))
            verdicts[True] += 1
        except compiler.ModelError:
            verdicts[False] += 1
    assert min(verdicts.values()) > 0
