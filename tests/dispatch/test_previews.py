"""Previews of outputs: bounded reading, images, scores, values and summaries."""

from __future__ import annotations

import io
import tracemalloc
import zlib
from base64 import b64decode
from typing import Any

import numpy as np
import onnx
import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.test import Client
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from apps.dispatch.models import Job
from apps.dispatch.previews import NpzFile, labels_of, preview, summaries
from apps.dispatch.previews.items import softmax
from apps.dispatch.previews.pictures import image_axes, png
from apps.dispatch.previews.summaries import READ_BYTES_MAX
from apps.registry.feeds import arrays_pack
from tests.dispatch.scene import Scene
from tests.dispatch.test_pages import SignIn, browser, present
from tests.tiers import some

__all__ = ["SignIn", "browser", "present"]
MIB = 2**20


def opened(**named: Any) -> NpzFile:
    return NpzFile(io.BytesIO(arrays_pack({name: np.asarray(array) for name, array in named.items()})))


@settings(max_examples=some(100), deadline=None)
@given(
    arrays(
        st.sampled_from(["float32", "float64", "int8", "uint8", "int64", "bool", "float16"]),
        array_shapes(min_dims=1, max_dims=4, max_side=6),
    ),
    st.data(),
)
def test_any_row_is_read_as_numpy_reads_it(array: np.ndarray, data: st.DataObject) -> None:
    file = opened(other=np.arange(7), x=array)
    row = data.draw(st.integers(0, len(array) - 1))
    found = file.row(file.arrays["x"], row)
    assert found is not None
    assert np.array_equal(found, array[row], equal_nan=array.dtype.kind == "f")
    with pytest.raises(IndexError):
        file.row(file.arrays["x"], len(array))


def test_a_large_file_is_summarised_within_a_few_megabytes() -> None:
    file = opened(small=np.arange(10, dtype="float32"), large=np.ones(25 * MIB, "float32"))
    tracemalloc.start()
    found = {one.name: one for one in summaries(file)}
    assert preview("large", file.row(file.arrays["large"], 12 * MIB)).values == ["1"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 24 * MIB
    assert (found["small"].least, found["small"].largest, found["small"].mean) == ("0", "9", "4.5")
    assert not found["small"].is_partial
    assert found["large"].is_partial
    assert found["large"].values_read * 4 <= READ_BYTES_MAX


def test_numbers_that_are_not_finite_are_counted_and_left_out_of_the_range() -> None:
    (found,) = summaries(opened(x=np.array([np.nan, 1.0, np.inf, 3.0], "float32")))
    assert (found.least, found.largest, found.mean, found.not_finite) == ("1", "3", "2", 2)
    (none,) = summaries(opened(x=np.array([np.nan], "float32")))
    assert (none.least, none.not_finite) == ("", 1)
    (texts,) = summaries(opened(x=np.array(["a", "b"])))
    assert (texts.dtype, texts.least) == ("<U1", "")


def test_an_item_of_many_megabytes_is_not_read() -> None:
    file = opened(x=np.zeros((2, 2 * MIB), "float32"))
    assert preview("x", file.row(file.arrays["x"], 0)).kind == "too large"


@pytest.mark.parametrize(
    ("shape", "dtype", "is_image"),
    [
        ((1, 3, 32, 32), "float32", True),
        ((3, 32, 48), "float32", True),
        ((32, 48, 4), "uint8", True),
        ((1, 1, 28, 28), "float32", True),
        ((1, 28, 28), "uint8", True),
        ((1, 128, 384), "float32", False),  # a sequence of features
        ((1, 64, 32, 32), "float32", False),
        ((3, 4, 4), "float32", False),
        ((3, 8, 1000), "float32", False),
        ((2, 3, 32, 32), "float32", False),
        ((10,), "float32", False),
        ((1, 3, 32, 32), "bool", False),
    ],
)
def test_images_are_told_by_their_channels_and_planes(shape: tuple[int, ...], dtype: str, is_image: bool) -> None:
    assert (image_axes(shape, np.dtype(dtype)) is not None) is is_image


def pixels_of(address: str) -> tuple[int, int, bytes]:
    """The width, the height and the unfiltered rows of a PNG."""
    data = b64decode(address.removeprefix("data:image/png;base64,"))
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    start = data.index(b"IDAT") + 4
    size = int.from_bytes(data[start - 8 : start - 4], "big")
    return width, height, zlib.decompress(data[start : start + size])


def test_an_image_is_scaled_from_black_to_white() -> None:
    values = np.linspace(-1, 1, 8 * 10, dtype="float32").reshape(1, 1, 8, 10)
    found = preview("mask", values)
    assert found.kind == "image"
    assert found.picture is not None
    assert (found.picture.width, found.picture.height, found.picture.scale) == (10, 8, "black -1, white 1")
    width, height, rows = pixels_of(found.picture.address)
    assert (width, height, rows[1], rows[-1]) == (10, 8, 0, 255)


def test_a_large_image_is_made_small_and_an_empty_one_does_not_fail() -> None:
    found = preview("y", np.zeros((3, 700, 1000), "float32"))
    assert found.picture is not None
    width, height, _ = pixels_of(found.picture.address)
    assert max(width, height) <= 256
    assert preview("y", np.full((3, 16, 16), np.nan, "float32")).kind == "image"
    assert png(np.zeros((2, 3, 4), np.uint8)).startswith(b"\x89PNG")


def test_scores_show_the_five_highest_classes_with_names_and_softmax() -> None:
    scores = np.array([[1.0, 5.0, 2.0, 4.0, 3.0, 0.0]], "float32")
    found = preview("logits", scores, labels=lambda classes: [f"name {number}" for number in range(classes)])
    assert [(one.number, one.label) for one in found.scores][:2] == [(1, "name 1"), (3, "name 3")]
    assert [one.number for one in found.scores] == [1, 3, 4, 2, 0]
    assert found.is_softmax
    assert sum(softmax(scores.reshape(-1).astype(float))) == pytest.approx(1)
    shares = preview("y", np.array([0.1, 0.9], "float32"))
    assert not shares.is_softmax, "probabilities are shown as they are"
    assert [one.share for one in shares.scores] == pytest.approx([0.9, 0.1])


def model_with(**metadata: str) -> io.BytesIO:
    """An ONNX file with a large weight and this metadata."""
    weight = onnx.numpy_helper.from_array(np.zeros(MIB, "float32"), "w")
    graph = onnx.helper.make_graph([], "g", [], [], [weight])
    model = onnx.helper.make_model(graph)
    onnx.helper.set_model_props(model, metadata)
    return io.BytesIO(model.SerializeToString())


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("names", "{0: 'cat', 1: 'dog'}"),
        ("labels", '["cat", "dog"]'),
        ("id2label", '{"1": "dog", "0": "cat"}'),
        ("classes", "cat, dog"),
    ],
)
def test_class_names_come_from_the_metadata_of_the_model(key: str, text: str) -> None:
    file = model_with(author="somebody", **{key: text})
    tracemalloc.start()
    assert labels_of(file, 2) == ["cat", "dog"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MIB // 4, "the weights are not read"
    assert labels_of(file, 3) == [], "another number of classes"


@given(st.binary(max_size=200))
@settings(deadline=None)
def test_any_bytes_have_names_or_none(data: bytes) -> None:
    assert isinstance(labels_of(io.BytesIO(data), 2), list)


@pytest.mark.parametrize("text", ["[" * 100_000, "{0: 'a', 2: 'b'}", "1", "null", '{"a": "b", "c": "d"}'])
def test_texts_that_name_no_classes_give_none(text: str) -> None:
    assert labels_of(model_with(labels=text), 2) == []


def test_features_texts_and_numbers_that_are_not_finite_are_plain_values() -> None:
    assert preview("sentence_embedding", np.ones(384, "float32")).kind == "values"
    assert preview("y", np.array([np.nan, 1.0], "float32")).values == ["not a number", "1"]
    assert preview("y", np.array(["cat", "dog"])).values == ["cat", "dog"]
    assert preview("y", np.array([True])).values == ["true"]
    assert preview("y", np.arange(40).reshape(4, 10)).more == 24


def finished(scene: Scene, **arrays_of: np.ndarray) -> Job:
    """A finished job of three items with these outputs."""
    job = scene.job(scene.contract((scene.program(), 50)), 3)
    scene.run(job)
    job.refresh_from_db()
    default_storage.delete(job.outputs_key)
    job.outputs_key = default_storage.save(job.outputs_key, ContentFile(arrays_pack(arrays_of)))
    job.save(update_fields=["outputs_key"])
    return job


def test_the_page_previews_the_item_that_the_address_names(present: Scene, browser: Client) -> None:
    scores = np.array([[9, 1, 1], [1, 9, 1], [1, 1, 9]], "float32")
    job = finished(present, y=scores)
    page = browser.get(f"/jobs/{job.pk}?item=2").content.decode()
    assert "Class 2" in page.split("Class 0")[0], "the highest class comes first"
    assert "3 × 3" in page
    assert "?item=1#outputs" in page
    assert "?item=3" not in page


@pytest.mark.parametrize("item", ["3", "-1", "1e9", "x", "٣", "9" * 10_000])
def test_an_item_that_the_job_does_not_have_is_said(present: Scene, browser: Client, item: str) -> None:
    job = finished(present, y=np.ones((3, 2), "float32"))
    answer = browser.get(f"/jobs/{job.pk}?item={item}")
    assert answer.status_code == 200
    assert "This job has items 0 to 2." in answer.content.decode()


def test_items_of_a_job_that_ended_early_are_found_by_their_numbers(present: Scene, browser: Client) -> None:
    job = finished(present, y=np.array([[9, 1], [1, 9]], "float32"), takt_items=np.array([0, 2]))
    assert "This item was not run." in browser.get(f"/jobs/{job.pk}?item=1").content.decode()
    page = browser.get(f"/jobs/{job.pk}?item=2").content.decode()
    assert "Class 0" in page.split("Class 1")[1]
    assert "The item number of each row" in page


def test_outputs_that_are_gone_leave_the_page_standing(present: Scene, browser: Client) -> None:
    job = finished(present, y=np.ones((3, 2), "float32"))
    default_storage.delete(job.outputs_key)
    page = browser.get(f"/jobs/{job.pk}")
    assert page.status_code == 200
    assert "The outputs cannot be read at the moment" in page.content.decode()
