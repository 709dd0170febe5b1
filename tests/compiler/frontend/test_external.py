"""Models that keep weights in side files: what is read, what is refused, and that nothing is in memory twice."""

import gc

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import compiler
from compiler.errors import ModelError
from compiler.ir.mapped import release
from compiler.isa.binary import Binary

ROWS, COLUMNS = 24, 12


def model_in(folder, **entries):
    """A product whose weights are in a side file; `entries` replace what the model says of their place (None: nothing)."""
    weights = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS) / 7
    (folder / "weights.bin").write_bytes(b"12345678" + weights.tobytes())
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[ROWS, COLUMNS])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in ({"location": "weights.bin", "offset": "8", "length": str(weights.nbytes)} | entries).items():
        if value is not None:
            entry = tensor.external_data.add()
            entry.key, entry.value = key, value
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "beside",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, ROWS])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, COLUMNS])],
        [tensor],
    )
    path = folder / "model.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    return path, weights


def test_a_model_with_a_side_file_is_the_model_with_its_weights_inside(tmp_path):
    path, weights = model_in(tmp_path)
    inside = onnx.load(path)  # which reads side files too
    assert np.array_equal(onnx.numpy_helper.to_array(inside.graph.initializer[0]), weights)
    beside, whole = compiler.load(path), compiler.load(inside.SerializeToString())
    assert beside.metadata["sha256"] != whole.metadata["sha256"]
    feeds = {"x": np.ones((2, ROWS), np.float32)}
    found = [compiler.simulate(compiler.compile(g, "lpu").to_bytes(), feeds)[0]["y"] for g in (beside, whole)]
    np.testing.assert_array_equal(*found)
    assert compiler.load(str(path)).metadata["sha256"] == compiler.inspect(path)["sha256"] == beside.metadata["sha256"]


def test_the_digest_covers_the_side_file(tmp_path):
    path, _ = model_in(tmp_path)
    before = compiler.load(path).metadata["sha256"]
    data = bytearray((tmp_path / "weights.bin").read_bytes())
    data[0] ^= 1  # in front of the tensor
    (tmp_path / "weights.bin").write_bytes(data)
    assert compiler.load(path).metadata["sha256"] != before


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"location": "../weights.bin"}, "not below the model's folder"),
        ({"location": "/etc/passwd"}, "not below the model's folder"),
        ({"location": "a/../../weights.bin"}, "not below the model's folder"),
        ({"location": "..\\weights.bin"}, "not below the model's folder"),
        ({"location": "C:weights.bin"}, "not below the model's folder"),
        ({"location": None}, "not below the model's folder"),
        ({"location": "other.bin"}, "which is not there. Give that file with the model"),
        ({"location": "."}, "which is not there"),
        ({"offset": "9"}, "lies at bytes 9 to 1161 of 'weights.bin', which has 1160"),
        ({"offset": "-8"}, "has the offset '-8', which is no number of bytes"),
        ({"offset": "9" * 30}, "which is no number of bytes"),
        ({"length": "1148"}, "has 1148 bytes in 'weights.bin', but its shape needs 1152"),
        ({"length": "x"}, "has the length 'x'"),
    ],
)
def test_a_place_that_is_not_there_is_refused(tmp_path, entries, words):
    path, _ = model_in(tmp_path, **entries)
    with pytest.raises(ModelError) as error:
        compiler.load(path)
    assert words in str(error.value)


@pytest.mark.parametrize("name", ["linked.bin", "folder/weights.bin"])
def test_a_link_is_not_followed(tmp_path, name):
    inside = tmp_path / "inside"
    inside.mkdir()
    path, _ = model_in(inside, location=name)
    (inside / "weights.bin").rename(tmp_path / "weights.bin")
    (inside / "linked.bin").symlink_to(tmp_path / "weights.bin")
    (inside / "folder").symlink_to(tmp_path)
    with pytest.raises(ModelError, match="which is a link"):
        compiler.load(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(location=st.text(max_size=12), offset=st.text(max_size=4), length=st.text(max_size=5))
def test_whatever_a_model_says_ends_in_a_sentence(tmp_path, location, offset, length):
    path, _ = model_in(tmp_path, location=location, offset=offset, length=length)
    with pytest.raises(ModelError):
        compiler.load(path)


def test_weights_are_mapped_and_not_copied(tmp_path):
    path, weights = model_in(tmp_path)
    (constant,) = (c for c in compiler.load(path).constants.values() if c.size == weights.size)
    assert not constant.flags.writeable
    base = constant
    while isinstance(base.base, np.ndarray):
        base = base.base
    assert isinstance(base, np.memmap)
    release(constant)  # its pages are read again
    np.testing.assert_array_equal(constant, weights)


def test_a_program_is_written_part_by_part_and_read_in_place(tmp_path):
    path, _ = model_in(tmp_path)
    program = compiler.compile(compiler.load(path), "lpu")
    program.write(tmp_path / "program.bin")
    data = (tmp_path / "program.bin").read_bytes()
    assert data == program.to_bytes()
    read = Binary.from_bytes(memoryview(data))
    assert read.digest == program.digest
    assert isinstance(read.constants, memoryview)
    assert read.constants.obj is data


@pytest.mark.thorough
def test_the_weights_are_in_memory_once(tmp_path):
    from benchmarks.large import made, peak_of_compile

    size = made(tmp_path, layers=4, width=8192)
    gc.collect()
    peak, _ = peak_of_compile(tmp_path / "model.onnx")
    assert peak <= size + 400_000_000  # a second copy would be 268 MB more
    assert (tmp_path / "model.onnx").stat().st_size < 10_000
