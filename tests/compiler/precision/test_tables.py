"""Tables of which rows are gathered: codes with a scale for each row."""

import numpy as np
import pytest
from onnx import helper

import compiler
from compiler.precision.tables import LEAST, row_codes
from tests.compiler.flow.models import F32, I64, model, value

ROWS, WIDTH = 700, 48


def table(rows=ROWS, width=WIDTH):
    rng = np.random.default_rng(1)
    return (rng.standard_normal((rows, width)) * 4.0 ** rng.integers(-3, 3, (rows, 1))).astype(np.float32)


def embedding(array, shape=(1, 5)):
    nodes = [helper.make_node("Gather", ["table", "ids"], ["x"]), helper.make_node("Neg", ["x"], ["y"])]
    width = array.shape[1]
    return model(nodes, [value("ids", I64, shape)], [value("y", F32, [*shape, width])], [("table", array)])


@pytest.mark.parametrize("shape", [(1, 5), (3,), (2, 2, 2)])
def test_a_gathered_table_is_stored_in_a_byte_for_each_element(shape):
    array = table()
    program = compiler.compile(compiler.load(embedding(array, shape)), precision="int8")
    assert array.size < program.resources.storage.weights < 1.3 * array.size
    ids = np.random.default_rng(2).integers(0, ROWS, shape)
    outputs, counters = compiler.simulate(program.to_bytes(), {"ids": ids})
    assert counters == program.resources
    codes, scales = row_codes(array)
    expected = -(codes[ids].astype(np.float32) * scales[ids][..., None])
    np.testing.assert_allclose(outputs["y"], expected, atol=1e-6)
    assert program.report()["accuracy"]["outputs"]["y"]["snr_db"] > 40


def test_small_tables_stay_as_they_are():
    array = table(rows=LEAST // WIDTH - 1)
    program = compiler.compile(compiler.load(embedding(array)), precision="int8")
    assert program.resources.storage.weights >= 4 * array.size


def test_a_row_of_zeros_stays_zero():
    array = table()
    array[3] = 0
    codes, scales = row_codes(array)
    assert not codes[3].any()
    assert np.isfinite(scales).all()
    assert np.abs(codes).max(axis=1)[scales > 1e-30].min() == 127


def test_a_table_of_which_a_run_reads_most_stays_as_it_is():
    array = table()
    program = compiler.compile(compiler.load(embedding(array, (1, ROWS // 3))), precision="int8")
    assert program.resources.storage.weights >= 4 * array.size
