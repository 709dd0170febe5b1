"""The template of a processor is sound and fast, and figures that slow common layers down are warned of by name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import compiler
from compiler import targets
from compiler.numerics.scalar import SCALAR
from compiler.probing import costly
from compiler.probing.costly import advice
from compiler.probing.layers import NAMES, SIZES, feeds, layer
from compiler.targets.loader import MOST

SAMPLES = Path(__file__).parents[3] / "samples"
GUIDE = Path(__file__).parents[3] / "docs" / "how-to" / "describe-a-processor.md"
TEMPLATE = targets.template("chip")


def changed(*changes: tuple[str, str]) -> targets.Target:
    """The template's processor with pieces of its text replaced."""
    text = TEMPLATE
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    return targets.parse(text)


def without(text: str, *tables: str) -> str:
    """The text without some tables of figures."""
    for table in tables:
        text = re.sub(rf"\[{table}(\.\w+)?\]\n([^\[\n][^\n]*\n|\n)*", "", text)
    return text


@pytest.fixture
def only(monkeypatch):
    """Tries one layer in one precision."""

    def choose(name: str, precision: str) -> None:
        monkeypatch.setattr(costly, "NAMES", (name,))
        monkeypatch.setattr(costly, "PRECISIONS", (precision,))

    return choose


def test_the_template_says_every_figure_and_is_warned_of_nothing() -> None:
    target = targets.parse(TEMPLATE)
    assert target.name == "chip"
    assert {*target.figures} >= {*targets.load("edge").figures}
    assert all(unit.instances for _, unit in target.classes())
    assert len(target.classes()) == 8
    assert advice(target) == []


def test_a_file_may_leave_out_any_unit_of_the_template_that_is_optional() -> None:
    for tables in (["external"], ["control"], ["move"], ["vector"], ["matrix", "weights"]):
        target = targets.parse(without(TEMPLATE, *tables))
        assert not any(target.unit(table).instances for table in tables)


@pytest.mark.parametrize(("missing", "kept"), [("u8", "i8"), ("i8", "u8")])
def test_bytes_of_one_sign_alone_are_warned_of_with_how_much_slower_they_are(missing, kept, only):
    only("dense layers", "int8")
    target = changed((f'{missing} = {{ value = [64, 64], source = "chosen" }}\n', ""))
    (warning,) = advice(target)
    slow, fast = (int(n.replace(",", "")) for n in re.findall(r"([\d,]+) cycles, ([\d,]+) with", warning)[0])
    assert warning.startswith(f"matrix.tiles.{missing} is missing")
    assert f"with {missing} = [64, 64]" in warning
    assert slow > 5 * fast
    graph = layer("dense layers", SIZES[0])
    program = compiler.compile(graph, target, "int8", compiler.calibrate(graph, feeds(graph), "int8"))
    assert program.resources.cycles == slow
    assert kept in target.matrix.tiles


@pytest.mark.parametrize(
    ("name", "precision", "change", "says"),
    [
        (
            "an attention product",
            "int8",
            ("f16 = {", "# f16 = {"),
            "matrix.tiles.f16 is missing.*an attention product in int8",
        ),
        (
            "dense layers",
            "float32",
            ("f32 = {", "# f32 = {"),
            r"matrix\.tiles\.f32 is missing.*dense layers in float32",
        ),
        ("an elementwise layer", "float32", ("[vector.ports]\na = { value = 4", "[vector.ports]\na = { value = 1"), ""),
        (
            "dense layers",
            "int8",
            ("rows = { value = 1_024", "rows = { value = 1"),
            r"matrix\.accumulator_rows = 1 is low; dense",
        ),
        (
            "softmax",
            "float32",
            ("[memory]\nbytes = { value = 4_194_304", "[memory]\nbytes = { value = 64"),
            "do not fit into memory.bytes = 64",
        ),
    ],
)
def test_a_costly_figure_is_named_with_the_layer_that_shows_it(name, precision, change, says, only):
    only(name, precision)
    found = advice(changed(change))
    assert [re.search(says, text) is not None for text in found] == ([True] if says else [])


def test_ports_that_starve_the_vector_unit_are_told_with_the_number_that_suffices(only):
    only("softmax", "float32")
    slow = ("bytes_per_cycle = { value = 32", "bytes_per_cycle = { value = 256")
    few = re.sub(r"(\[vector\.ports\]\n)a = \{ value = 4(.*\n)", r"\1a = { value = 1\2", TEMPLATE)
    text = few.replace(*slow).replace("alus = { value = 4", "alus = { value = 64")
    (warning,) = advice(targets.parse(text))
    assert "vector.ports are few" in warning
    assert "vector.ports.a = 4" in warning


def test_a_processor_without_a_unit_that_layers_need_is_told_which_layers_those_are(monkeypatch):
    monkeypatch.setattr(costly, "PRECISIONS", ("float32",))
    (warning,) = [text for text in advice(targets.parse(without(TEMPLATE, "vector"))) if "cannot be compiled" in text]
    assert "softmax" in warning
    assert "needs the unit 'vector'" in warning


def test_layers_are_what_they_are_called() -> None:
    for name in NAMES:
        graph = layer(name, SIZES[-1])
        products = [node for node in graph.nodes if getattr(node, "is_contraction", False)]
        assert bool(products) == (name not in ("an elementwise layer", "softmax")), name
        assert set(feeds(graph)[0]) == set(graph.inputs)


def test_passes_of_the_template_are_operators_and_no_figure_is_at_its_limit() -> None:
    target = targets.parse(TEMPLATE)
    assert set(target.passes) <= set(SCALAR)
    assert max(target.passes.values()) < MOST["passes"]


def test_the_guides_processor_compiles_the_samples_within_one_and_a_half_times_their_bounds() -> None:
    """Heron of docs/how-to/describe-a-processor.md, written as the guide says."""
    text = without(TEMPLATE, "external", "control").replace("4_194_304", "2_097_152")
    heron = targets.parse(text.replace('f32 = { value = [32, 32], source = "chosen" } # float32 programs\n', ""))
    assert set(heron.matrix.tiles) == {"i8", "u8", "f16"}
    guide, cycles, ratios = " ".join(GUIDE.read_text(encoding="utf-8").split()), [], []
    for name, dims in (("digits-small", None), ("digits-large", None), ("digits-batch", {"batch": 8})):
        program = compiler.compile(compiler.load(f"{SAMPLES}/{name}.onnx", dims), heron, "int8")
        cycles.append(program.resources.cycles)
        ratios.append(float(program.bounds["latency"]["ratio"]))
        assert 1 <= ratios[-1] <= 1.5, name
    assert "need {} (`digits-small`), {} (`digits-large`) and {} cycles".format(*cycles) in guide
    assert "{:.2f}, {:.2f} and {:.2f} times their proven bounds".format(*ratios) in guide
