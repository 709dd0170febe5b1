"""Typical inputs and kept ranges on the command line."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import compiler
from apps.cli.main import main as takt
from compiler.__main__ import main
from compiler.commands.examples import items
from compiler.commands.listing import seeded
from compiler.errors import ModelError

RNG = np.random.default_rng(5)
WEIGHTS = RNG.standard_normal((8, 4)).astype(np.float32)
TYPICAL = {"x": RNG.uniform(0, 50, (12, 1, 8)).astype(np.float32), "k": np.arange(12).reshape(12, 1) % 8}


def network(batch=1):
    """Two inputs: rows, and places of columns that are added."""
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Gather", ["w", "k"], ["g"]),
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["m", "g"], ["y"]),
    ]
    ports = [info("x", TensorProto.FLOAT, [batch, 8]), info("k", TensorProto.INT64, [1])]
    graph = helper.make_graph(
        nodes, "net", ports, [info("y", TensorProto.FLOAT, [batch, 4])], [numpy_helper.from_array(WEIGHTS, "w")]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(network(), "model.onnx")
    onnx.save(network("rows"), "open.onnx")
    np.savez("typical.npz", **TYPICAL)
    return tmp_path


def run(capsys, *arguments):
    status = takt(arguments[1:]) if arguments[0] == "takt" else main(arguments)
    said = capsys.readouterr()
    return status, said.out, said.err


def accuracy(capsys, *arguments):
    status, out, error = run(capsys, "report", "model.onnx", "--precision", "int8", "--json", *arguments)
    assert status == 0, error
    return json.loads(out)["accuracy"]


def test_examples_give_the_ranges(place, capsys):
    found = accuracy(capsys, "--examples", "typical.npz")
    assert (found["calibration"], found["feeds"], found["measured"], found["unseen"]) == ("given feeds", 9, 3, True)
    top = max(float(row.max()) for n, row in enumerate(TYPICAL["x"]) if n % 4 != 3)
    assert found["inputs"]["x"][1] == top * 1.25
    status, out, _ = run(capsys, "report", "model.onnx", "--precision", "int8", "--examples", "typical.npz")
    assert status == 0
    assert "ranges from 9 given examples, errors measured on 3 others" in out
    assert "made-up inputs" in run(capsys, "report", "model.onnx", "--precision", "int8")[1]


def test_files_of_one_item_follow_on_each_other(place, capsys):
    for n in range(2):
        np.savez(f"{n}.npz", x=TYPICAL["x"][n], k=TYPICAL["k"][n])
    found = accuracy(capsys, "--examples", "0.npz", "--examples", "1.npz", "--examples", "typical.npz")
    assert found["feeds"] + found["measured"] == 14


def test_kept_ranges_compile_to_the_same_bytes(place, capsys):
    narrow = ("--precision", "int8")
    given = (*narrow, "--examples", "typical.npz")
    assert run(capsys, "compile", "model.onnx", "-o", "a", *given, "--write-ranges", "r.json")[0] == 0
    assert run(capsys, "compile", "model.onnx", "-o", "b", *narrow, "--ranges", "r.json")[0] == 0
    assert run(capsys, "compile", "model.onnx", "-o", "c", *given)[0] == 0
    assert Path("a").read_bytes() == Path("b").read_bytes() == Path("c").read_bytes()
    assert accuracy(capsys, "--ranges", "r.json") == accuracy(capsys, "--examples", "typical.npz")


def test_ranges_of_another_model_or_precision_are_refused(place, capsys):
    onnx.save(network(3), "three.onnx")
    other = network()
    other.graph.initializer[0].CopyFrom(numpy_helper.from_array(WEIGHTS * 2, "w"))
    onnx.save(other, "other.onnx")
    int8, kept = ("--precision", "int8"), ("--ranges", "r.json")
    assert run(capsys, "compile", "model.onnx", "-o", "a", *int8, "--write-ranges", "r.json")[0] == 0
    for model, precision, says in (
        ("other.onnx", "int8", "--ranges r.json: the ranges are of another model"),
        ("three.onnx", "int8", "the ranges are of another model, of other sizes"),
        ("model.onnx", "float16", "--ranges r.json: the ranges were taken for int8, not for float16"),
    ):
        status, out, error = run(capsys, "report", model, "--precision", precision, *kept)
        assert (status, out, error.count("\n")) == (1, "", 1)
        assert says in error
    found = compiler.Calibration.from_json(Path("r.json").read_text())
    with pytest.raises(ModelError, match="not for float16"):
        compiler.compile(compiler.load("model.onnx"), "lpu", "float16", found)
    producer = network()
    producer.producer_name = "another"
    onnx.save(producer, "exported.onnx")  # another file of the same model
    assert run(capsys, "report", "exported.onnx", *int8, *kept)[0] == 0


def test_errors_of_ranges_that_name_no_model_are_left_out(place, capsys):
    int8 = ("--precision", "int8")
    assert run(capsys, "compile", "model.onnx", "-o", "a", *int8, "--write-ranges", "r.json")[0] == 0
    old = json.loads(Path("r.json").read_text())
    del old["graph"]
    Path("old.json").write_text(json.dumps(old))
    found = accuracy(capsys, "--ranges", "old.json")
    assert (found["outputs"], found["measured"]) == ({}, 0)
    assert (
        "no errors were measured on this one" in run(capsys, "report", "model.onnx", *int8, "--ranges", "old.json")[1]
    )
    assert run(capsys, "report", "model.onnx", "--precision", "float16", "--ranges", "old.json")[0] == 1
    program = compiler.compile(
        compiler.load("model.onnx"), "lpu", "int8", compiler.Calibration.from_json(json.dumps(old))
    )
    assert program.to_bytes() == Path("a").read_bytes()  # as whoever verifies an old invoice compiles


def test_each_size_takes_the_examples_of_its_own(place, capsys):
    np.savez("three.npz", x=np.ones((5, 3, 8), np.float32), k=np.zeros((5, 1), np.int64))
    sizes = ("--dim", "rows=1,3", "--precision", "int8", "--json")
    files = ("--examples", "three.npz", "--examples", "typical.npz")
    status, out, error = run(capsys, "report", "open.onnx", *sizes, *files)
    assert status == 0, error
    assert [r["accuracy"]["feeds"] for r in json.loads(out)] == [9, 5]


def test_other_commands_take_them_too(place, capsys):
    given = ("--precision", "int8", "--examples", "typical.npz")
    assert run(capsys, "diff", "model.onnx", "model.onnx", *given)[0] == 0
    assert run(capsys, "targets", "compare", "model.onnx", "--target", "lpu", *given)[0] == 0
    status, out, _ = run(capsys, "takt", "report", "model.onnx", *given, "--json")
    assert status == 0
    status, here, _ = run(capsys, "report", "model.onnx", *given, "--json")
    assert json.loads(out)["program"] == json.loads(here)["headline"]["digest"]


X, K = TYPICAL["x"], TYPICAL["k"]
NAN = np.where(np.arange(12)[:, None, None] == 7, np.nan, X)


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"x": X}, "there is no array 'k'; the model takes x f32[1,8], k i64[1]"),
        ({"x": X, "k": K, "z": K}, "no input 'z'"),
        ({"x": X[..., :7], "k": K}, "'x' has the shape [12, 1, 7]; one item has [1, 8]"),
        ({"x": X, "k": K + 0.5}, "'k' is of type float64; the model takes int64"),
        ({"x": X.astype(str), "k": K}, "'x' is of type <U"),
        ({"x": X, "k": K[:3]}, "12 of 'x', 3 of 'k'"),
        ({"x": X[:0], "k": K[:0]}, "no item"),
        ({"x": NAN, "k": K}, "item 7 of 'x' holds what is not a number"),
    ],
)
def test_examples_that_do_not_fit_end_in_one_line(arrays, says, place, capsys):
    np.savez("wrong.npz", **arrays)
    status, out, error = run(capsys, "report", "model.onnx", "--precision", "int8", "--examples", "wrong.npz")
    assert (status, out) == (1, "")
    assert error.startswith("error: --examples wrong.npz: ")
    assert error.count("\n") == 1
    assert says in error


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["--examples", "typical.npz"], 2, "float32 takes no ranges: leave --examples away"),
        (["--precision", "int8", "--examples", "typical.npz", "--ranges", "r"], 2, "give --examples or --ranges"),
        (["--precision", "int8", "--examples", "nowhere"], 1, "--examples nowhere: there is no such file"),
        (["--precision", "int8", "--examples", "model.onnx"], 1, "--examples model.onnx: it is no .npz file"),
        (["--precision", "int8", "--ranges", "nowhere"], 1, "--ranges nowhere: there is no such file"),
        (["--precision", "int8", "--ranges", "other.json"], 1, "they lack 'x'"),
        (["--precision", "int8", "--ranges", "book.json"], 1, "--ranges book.json: the ranges are not readable"),
    ],
)
def test_options_that_make_no_sense_end_in_one_line(arguments, status, says, place, capsys):
    Path("other.json").write_text(compiler.Calibration({"z": (0.0, 1.0)}, {}, seeded=True, count=1).to_json())
    Path("book.json").write_text("[1, 2]")
    found, out, error = run(capsys, "report", "model.onnx", *arguments)
    assert (found, out) == (status, "")
    assert error.count("\n") == 1
    assert says in error


def test_ranges_belong_to_one_size_and_to_a_model(place, capsys):
    several = ("compile", "open.onnx", "-o", "p", "--dim", "rows=1,2", "--precision", "int8", "--write-ranges", "r")
    status, _, error = run(capsys, *several)
    assert (status, Path("r").exists()) == (2, False)
    assert "belong to one size" in error
    assert run(capsys, "compile", "model.onnx", "-o", "p")[0] == 0
    status, _, error = run(capsys, "report", "p", "--examples", "typical.npz")
    assert status == 2
    assert "--examples" in error


@settings(max_examples=60, deadline=None)
@given(
    shape=st.lists(st.integers(1, 4), max_size=3).map(tuple),
    count=st.integers(1, 5),
    form=st.sampled_from(["stacked", "short", "single"]),
)
def test_items_come_back_as_they_were_put_together(shape, count, form):
    graph = compiler.load(only(shape))
    feeds = RNG.standard_normal((count, *shape)).astype(np.float32)
    if form == "single":
        feeds = feeds[:1]
        found = items(graph, {"x": feeds[0]})
    else:
        short = form == "short" and shape[:1] == (1,)
        found = items(graph, {"x": feeds[:, 0] if short else feeds})
    np.testing.assert_array_equal(np.stack([feed["x"] for feed in found]), feeds)


def test_items_of_floats_serve_an_input_of_bfloat16():
    """NumPy tells bfloat16 and float8 as no kind of float; they are rounded to, as float16 is."""
    graph = compiler.load(only((3,), TensorProto.BFLOAT16))
    wide = np.float32([[0.1, -2.5, 3e38], [1, 2, 3]])
    found = np.stack([feed["x"] for feed in items(graph, {"x": wide})])
    assert found.dtype == graph.types["x"].dtype.numpy
    np.testing.assert_array_equal(found, wide.astype(found.dtype))
    np.testing.assert_array_equal(np.stack([feed["x"] for feed in items(graph, {"x": found})]), found)
    with pytest.raises(ModelError, match="'x' holds numbers that bfloat16 cannot hold"):
        items(graph, {"x": np.float64([[1e300, 0, 0]])})
    with pytest.raises(ModelError, match="'x' is of type bfloat16; the model takes int64"):
        items(compiler.load(only((3,), TensorProto.INT64)), {"x": found})


def test_made_up_inputs_of_bfloat16_are_normal_numbers():
    program = compiler.compile(compiler.load(only((400,), TensorProto.BFLOAT16)))
    made = seeded(program, 0)["x"]
    assert made.dtype == np.dtype("bfloat16")
    assert len(set(made.tolist())) > 100
    assert (made < 0).any()


def only(shape, dtype=TensorProto.FLOAT):
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"])], "neg", [info("x", dtype, shape)], [info("y", dtype, shape)]
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return onnx.ModelProto.FromString(made.SerializeToString())


def test_a_file_that_is_cut_off_is_refused(place, capsys):
    data = Path("typical.npz").read_bytes()
    for size in (0, 3, 40, len(data) // 2, len(data) - 1):
        Path("cut.npz").write_bytes(data[:size])
        status, _, error = run(capsys, "report", "model.onnx", "--precision", "int8", "--examples", "cut.npz")
        assert (status, error.count("\n")) == (1, 1)
    damaged = bytearray(data)
    damaged[60:90] = bytes(30)
    Path("cut.npz").write_bytes(bytes(damaged))
    assert run(capsys, "report", "model.onnx", "--precision", "int8", "--examples", "cut.npz")[0] == 1
    with pytest.raises(ModelError, match="there is no array 'x'"):
        items(compiler.load(network()), {})
