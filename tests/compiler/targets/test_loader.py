"""Target files: what ships loads, and a wrong file is told what to change."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

import compiler
from compiler import targets
from compiler.errors import ModelError
from compiler.targets.catalogue import HERE
from tests.tiers import some

TEXT = (HERE / "lpu.toml").read_text(encoding="utf-8")


def test_two_versions_ship_and_every_figure_has_a_source() -> None:
    assert {"lpu", "lpu2"} <= set(targets.names())
    for name in targets.names():
        target = targets.load(name)
        assert len(target.figures) > 60
        assert all(source for _, source in target.figures.values())


def test_the_published_figures_are_the_published_ones() -> None:
    t = targets.load("lpu")
    assert (t.clock_hz, t.memory_bytes, t.line_bytes) == (900_000_000, 220 * 2**20, 320)
    assert (t.matrix.instances, t.matrix.tiles["i8"], t.vector.lanes) == (4, (320, 320), 320)
    assert t.vector.lanes * (t.vector.alus + t.matrix.instances * t.matrix.alus) == 5_120
    weights = t.matrix.instances * 320 * 320
    assert weights / (t.weights.instances * t.weights.bytes_per_cycle) <= 40


def test_the_digest_is_of_the_content_and_not_of_its_layout() -> None:
    target = targets.parse(TEXT)
    assert targets.parse("# a comment\n\n" + TEXT).digest == target.digest == targets.load("lpu").digest
    assert targets.parse(TEXT.replace("value = 1024", "value = 1025")).digest != target.digest


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ModelError, match=r"no target 'gpu'; known targets: .*lpu, lpu2"):
        targets.load("gpu")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "lpu"', "", "'name' must be a text"),
        ("version = 1", "", "'version' must be a whole number"),
        ("hz = {", "speed = {", "clock.hz is missing; write hz = {"),
        ("lanes = {", "lames = {", "vector.lanes is missing (there is a vector.lames)"),
        ("hz = { value = 900_000_000, source", "hz = { valeu = 5, source", "not 'valeu', 'source'"),
        ("hz = { value = 900_000_000, source", "hz = 5 # {", "clock.hz must have a value and a source, not just 5"),
        ("[memory]", "[[memory]]", "[memory] must be one table of figures"),
        ('name = "lpu"', 'name = "a/b"', "'name' must be at most 64 letters"),
        ('name = "lpu"', 'name = "a\\nb"', "'name' must be at most 64 letters"),
        ("version = 1", "version = 0", "'version' must be a whole number of at least 1"),
        ("version = 1", "version = " + "9" * 5000, "thousands of digits"),
        ("version = 1", "version = 1\nfrom = 1979-05-27", "no setting is a date"),
        ("version = 1", "version = 1\ndeep = " + "[" * 9999, "nested deeper"),
        ("[memory]", "[" + ".".join("x" * 2000) + "]\n[memory]", "nested deeper"),
        ("slots = { value = 2", "slots = { value = 1", "matrix.slots must be a whole number of at least 2"),
        ("lanes = { value = 320", "lanes = { value = 3.5", "vector.lanes must be a whole number"),
        ("value = [160, 160]", "value = [160]", "matrix.tiles.f32 must be two positive"),
        ('source = "chosen: four ALU', 'source = "guessed: four ALU', "source of vector.latency must begin with"),
        ("read_ports = { value = 88", "read_ports = { value = 60", " but memory.read_ports is 60"),
        ("[weights]\ninstances = { value = 4", "[weights]\ninstances = { value = 3", "every plane has one load port"),
        ("line_bytes = { value = 320", "line_bytes = { value = 321", "multiple of 8"),
        ("erf = {", "magic = {", "magic, which is not a scalar operator"),
        ("[clock]", "[clock]\nhertz = { value = 1, source = 'chosen' }", "no figure 'clock.hertz'"),
        ("[clock]", "colour = 3\n[clock]", "no setting 'colour'"),
        ("[matrix.tiles]", "[matrix.tiles]\ni64 = { value = [2, 2], source = 'chosen' }", "not i64"),
        ("[clock]", "[clock", "not valid TOML"),
    ],
)
def test_a_wrong_file_is_told_what_to_change(old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(ModelError, match=re.escape(message)):
        targets.parse(TEXT.replace(old, new, 1))


def test_all_faults_of_a_file_are_told_at_once_with_their_lines() -> None:
    """In the order of the file, one sentence each, and no table or figure twice."""
    changes = [
        ("hz = { value = 900_000_000", "hz = { value = 3.5", "clock.hz must be a whole number"),
        ("slots = { value = 2", "slots = { value = 1", "matrix.slots must be a whole number of at least 2"),
        ("lanes = {", "lames = {", "vector.lanes is missing (there is a vector.lames)"),
        ('source = "chosen: four ALU', 'source = "guessed: four ALU', "the source of vector.latency"),
        ("[control]", "[contorl]", "there is no table [contorl]; rename it to [control] or remove it"),
        ("erf = {", "magic = {", "[passes] names magic"),
    ]
    text = TEXT.replace("[control.ports]", "[contorl.ports]")
    for old, new, _ in changes:
        assert old in text
        text = text.replace(old, new, 1)
    with pytest.raises(ModelError) as refused:
        targets.parse(text)
    first, *faults = str(refused.value).splitlines()
    assert first == "target lpu: 6 faults"
    assert len(faults) == len(changes)
    numbers = [int(fault.rpartition("(line ")[2].rstrip(")")) for fault in faults]
    assert numbers == sorted(numbers)
    for _, new, message in changes:
        (fault,) = [fault for fault in faults if message in fault]
        if "lames" not in new:  # a missing figure has the line of its table
            assert new in text.splitlines()[numbers[faults.index(fault)] - 1] or "source" in new


def test_a_missing_table_is_one_fault() -> None:
    with pytest.raises(ModelError) as refused:
        targets.parse("name = 'chip'")
    said = str(refused.value)
    assert [said.count(f"[{table}] is missing") for table in ("clock", "memory", "energy", "link_in", "link_out")] == [
        1
    ] * 5


@settings(max_examples=some(400), deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_another_processor_or_refused(data: st.DataObject) -> None:
    lines = TEXT.splitlines()
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        cut = data.draw(st.integers(0, len(lines[at])))
        put = data.draw(st.sampled_from(["", "[", "]", "{", "}", "=", '"', "0", "-", ".", "x", "#", lines[at], "true"]))
        lines[at] = lines[at][:cut] + put + lines[at][cut + data.draw(st.integers(0, 3)) :]
    try:
        target = targets.parse("\n".join(lines))
    except ModelError as error:
        assert str(error).startswith("target")  # noqa: PT017 - some files are still sound
    else:
        assert target.figures


@pytest.mark.parametrize(
    ("section", "key", "most"),
    [
        ("matrix", "slots", 256),
        ("matrix", "latency", 1 << 20),
        ("vector", "latency", 1 << 20),
        ("vector", "lanes", 1 << 16),
        ("vector", "alus", 256),
        ("link_in", "latency", 1 << 20),
        ("memory", "line_bytes", 1 << 16),
        ("passes", "erf", 1 << 16),
    ],
)
def test_a_figure_that_no_program_can_express_is_refused(section: str, key: str, most: int) -> None:
    """It ended in an overflow deep inside, or took all the memory."""
    head, middle, tail = TEXT.partition(f"[{section}]")
    for value, fits in ((most, True), (most + 1, False), ((1 << 48) - 1, False)):
        text = head + middle + re.sub(rf"\n{key} = {{ value = [\d_]+", f"\n{key} = {{ value = {value}", tail, count=1)
        try:
            found = targets.parse(text).figures[f"{section}.{key}"][0] == value
        except ModelError as error:
            found = f"{section}.{key} must be a whole number" not in str(
                error
            )  # perhaps other figures do not go with it
        assert found == fits


@pytest.mark.parametrize("unit", ["link_in", "link_out"])
def test_a_tile_of_bytes_holds_an_element(unit: str) -> None:
    head, middle, tail = TEXT.partition(f"[{unit}]")
    wrong = head + middle + tail.replace("tile = { value = 65_536", "tile = { value = 7", 1)
    with pytest.raises(ModelError, match=f"{unit}.tile must be a whole number of at least 8 "):
        targets.parse(wrong)


def test_a_program_of_more_cycles_than_there_are_is_refused() -> None:
    text = TEXT.replace("lanes = { value = 320", "lanes = { value = 2")
    text = re.sub(r"\nerf = { value = \d+", "\nerf = { value = 65536", text)
    one = helper.make_tensor_value_info
    parts = [one("x", 1, [1 << 20])], [one("y", 1, [1 << 20])]
    model = helper.make_model(helper.make_graph([helper.make_node("Erf", ["x"], ["y"])], "slow", *parts))
    with pytest.raises(ModelError, match=r"would issue in cycle \d+; a program has at most 4294967295 cycles"):
        compiler.compile(compiler.load(model), targets.parse(text))


def test_a_file_that_is_wrong_is_named(tmp_path: Path) -> None:
    for wrong in ("hz = 5", "[clock"):
        (tmp_path / "chip.toml").write_text(TEXT.replace("[clock]", wrong), encoding="utf-8")
        with pytest.raises(ModelError, match=re.escape(f"{tmp_path}/chip.toml: target")):
            targets.read(tmp_path / "chip.toml")


def test_a_mark_at_the_beginning_is_no_part_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "chip.toml").write_text(TEXT, encoding="utf-8-sig")
    assert targets.read(tmp_path / "chip.toml") == targets.load("lpu")


def test_units_stand_in_issue_order() -> None:
    names = [name for name, _ in targets.load("lpu").instances()]
    assert names == ["link_in"] + ["weights"] * 4 + ["matrix"] * 4 + ["vector", "move", "link_out", "control"]


def test_an_unknown_table_is_not_renamed_to_one_that_is_there() -> None:
    """Only the name of a table that is missing is a remedy: the other would be there twice."""
    with pytest.raises(ModelError, match=re.escape("there is no table [link_on]; remove it")):
        targets.parse(TEXT + "\n[link_on]\nlatency = 1\n")
    with pytest.raises(
        ModelError, match=re.escape("there is no table [link_on]; rename it to [link_out] or remove it")
    ):
        targets.parse(TEXT.replace("[link_out]", "[link_on]").replace("[link_out.ports]", "[link_on.ports]"))
