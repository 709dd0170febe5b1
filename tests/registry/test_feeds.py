"""Whatever a customer sends as inputs ends in arrays that fit the program, or in sentences that say what to change."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from apps.registry.feeds import (
    InputError,
    Limits,
    TensorType,
    arrays_pack,
    arrays_read,
    arrays_read_json,
    arrays_unpack,
    items_check,
    items_match,
)
from tests.tiers import some

IMAGE = TensorType("image", "float32", (1, 3, 4))
MASK = TensorType("mask", "int64", (4,))
DTYPES = ["float32", "float64", "float16", "int8", "int32", "int64", "uint8", "bool"]


def read(data: bytes, types: list[TensorType] | None = None, limits: Limits | None = None) -> dict[str, np.ndarray]:
    return arrays_read(io.BytesIO(data), types or [IMAGE], limits or Limits())


def verdict(data: bytes) -> dict[str, np.ndarray] | list[str]:
    """Arrays or sentences; anything else that is raised fails the test."""
    try:
        return read(data)
    except InputError as error:
        return error.problems


def problems_of(error: pytest.ExceptionInfo[InputError]) -> str:
    return " ".join(error.value.problems)


def test_items_stand_along_the_leading_list() -> None:
    arrays = {"image": np.ones((7, 1, 3, 4), "float32"), "mask": np.ones((7, 4), "int64")}
    assert {name: array.shape for name, array in items_check(arrays, [IMAGE, MASK]).items()} == {
        "image": (7, 1, 3, 4),
        "mask": (7, 4),
    }


def test_a_leading_one_may_be_left_out() -> None:
    assert items_check({"image": np.ones((7, 3, 4), "float32")}, [IMAGE])["image"].shape == (7, 1, 3, 4)


def test_every_fault_is_listed_at_once() -> None:
    arrays = {"image": np.ones((2, 9), "float32"), "picture": np.ones(3)}
    with pytest.raises(InputError) as error:
        items_check(arrays, [IMAGE, MASK])
    assert len(error.value.problems) == 3
    assert "'mask' (int64, 4) is missing" in problems_of(error)
    assert "no input 'picture'; the program's inputs are 'image', 'mask'" in problems_of(error)
    assert "needs the shape [items, 1, 3, 4]; yours is [2, 9]" in problems_of(error)


def test_inputs_of_different_length_are_refused() -> None:
    with pytest.raises(InputError, match="same number of items"):
        items_check({"image": np.ones((2, 3, 4), "float32"), "mask": np.ones((3, 4), "int64")}, [IMAGE, MASK])


def test_no_items_are_refused() -> None:
    with pytest.raises(InputError, match="at least one"):
        items_check({"image": np.ones((0, 1, 3, 4), "float32")}, [IMAGE])


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1.5], "int64"),
        ([300], "uint8"),
        ([-1], "uint64"),
        ([2**63], "int64"),
        ([1e300], "float32"),
        (["x"], "float32"),
        ([2**60 + 1], "float32"),
    ],
)
def test_a_value_that_the_type_cannot_hold_is_refused(values: list[object], dtype: str) -> None:
    with pytest.raises(InputError, match="'x'"):
        items_check({"x": np.array(values)}, [TensorType("x", dtype, ())])


@settings(max_examples=some(100))
@given(
    hnp.arrays(st.sampled_from(DTYPES), hnp.array_shapes(min_dims=1, max_dims=3, max_side=4)),
    st.sampled_from(DTYPES),
)
def test_a_conversion_changes_no_whole_number_and_keeps_floats_finite(array: np.ndarray, dtype: str) -> None:
    try:
        found = items_check({"x": array}, [TensorType("x", dtype, array.shape[1:])])["x"]
    except InputError:
        return
    assert found.dtype == dtype
    if array.dtype.kind in "biu":
        assert [int(value) for value in found.flat] == [int(value) for value in array.flat]
    else:
        assert np.array_equal(np.isfinite(found), np.isfinite(array))


@settings(max_examples=some(100))
@given(st.dictionaries(st.sampled_from("abc"), hnp.arrays(st.sampled_from(DTYPES), hnp.array_shapes(max_dims=3))))
def test_what_is_packed_is_unpacked_bit_for_bit(arrays: dict[str, np.ndarray]) -> None:
    data = arrays_pack(arrays)
    assert data == arrays_pack(dict(reversed(arrays.items())))
    found = arrays_unpack(data)
    assert {name: (array.dtype, array.tobytes()) for name, array in found.items()} == {
        name: (array.dtype, array.tobytes()) for name, array in arrays.items()
    }


@given(st.binary(max_size=300), st.sampled_from([b"", b"PK\x03\x04", b"\x93NUMPY\x01\x00", b"\x93NUMPY\x09\x00"]))
@settings(max_examples=200)
def test_no_bytes_at_all_end_in_anything_but_arrays_or_a_sentence(rest: bytes, head: bytes) -> None:
    found = verdict(head + rest)
    assert found or found == {}


@given(st.data())
def test_a_damaged_file_ends_in_arrays_or_a_sentence(data: st.DataObject) -> None:
    good = bytearray(arrays_pack({"image": np.ones((2, 3, 4), "float32")}))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    found = verdict(bytes(good[: data.draw(st.integers(0, len(good)))]))
    assert found or found == {}


def test_a_file_that_unpacks_to_too_much_is_refused_before_it_is_unpacked() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("image.npy", b"\0" * 2_000_000)
    with pytest.raises(InputError, match=r"unpacks to 2,000,000 bytes \(arrays: 1\)"):
        read(buffer.getvalue(), limits=Limits(array_bytes=1_000_000))


def test_a_header_that_claims_too_much_is_refused() -> None:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f4", "fortran_order": False, "shape": (2**40, 2**40)})
    with pytest.raises(InputError, match="of a suitable type"):
        read(buffer.getvalue())


def test_objects_are_never_unpickled() -> None:
    buffer = io.BytesIO()
    np.savez(buffer, image=np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match="only plain numbers"):
        read(buffer.getvalue())


def test_a_single_npy_file_serves_a_program_of_one_input_alone() -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.ones((2, 3, 4), "float32"))
    assert read(buffer.getvalue())["image"].shape == (2, 3, 4)
    with pytest.raises(InputError, match=r"\.npz"):
        read(buffer.getvalue(), [IMAGE, MASK])


def test_json_lists_become_items_and_whole_numbers_may_stand_for_floats() -> None:
    arrays = arrays_read_json({"image": [[[[1] * 4] * 3]] * 2, "mask": [[1, 0, 1, 0]] * 2}, [IMAGE, MASK])
    assert items_check(arrays, [IMAGE, MASK])["image"].dtype == np.float32


@pytest.mark.parametrize("document", [[1, 2], "x", None, {"image": [[1], [1, 2]]}, {"image": ["a"]}, {"image": None}])
def test_json_of_another_form_is_refused(document: object) -> None:
    with pytest.raises(InputError):
        arrays_read_json(document, [IMAGE])


def test_shapes_choose_among_buckets() -> None:
    buckets = [[TensorType("ids", "int64", (1, size))] for size in (16, 64, 128)]
    arrays = {"ids": np.ones((5, 64), "int64")}
    assert [items_match(arrays, types) for types in buckets] == [False, True, False]
