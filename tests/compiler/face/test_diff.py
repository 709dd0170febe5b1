"""What a change costs: every figure, by operation, against a budget, in three forms."""

import json
import re
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.__main__ import main
from compiler.commands.changes import MOST, rendered
from compiler.difference import Difference, Figure, Operation, percent, read_budget
from tests.compiler.ir.test_written import SMALL

NASTY = "a|b<script>`x`\n*y*"


def network(hidden, extra=None, first=None):
    """x[batch, 7] -> Gemm, Relu, Gemm, and perhaps one more operation of that name at the end, or in front."""
    rng = np.random.default_rng(hidden)
    shapes = {"w1": (7, hidden), "b1": (hidden,), "w2": (hidden, 3), "b2": (3,)}
    weights = [numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in shapes.items()]
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"], "first"),
        helper.make_node("Relu", ["h"], ["r"], "relu"),
        helper.make_node("Gemm", ["r", "w2", "b2"], ["z" if extra else "y"], "second"),
    ]
    if extra:
        nodes.append(helper.make_node("Softmax", ["z"], ["y"], extra))
    if first:
        nodes[0].input[0] = "f"
        nodes.insert(0, helper.make_node("Tanh", ["x"], ["f"], first))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 7])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])
    graph = helper.make_graph(nodes, "net", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.fixture
def files(tmp_path):
    for name, model in (("old", network(12)), ("new", network(300)), ("more", network(12, NASTY))):
        onnx.save(model, tmp_path / f"{name}.onnx")
    return tmp_path


def diff(files, old, new, *arguments):
    return main(["diff", str(files / old), str(files / new), *arguments])


def test_every_figure_is_that_of_the_two_programs(files, capsys):
    assert diff(files, "old.onnx", "new.onnx", "--dim", "batch=2", "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    old, new = (compiler.compile(compiler.load(files / f"{n}.onnx", {"batch": 2})).resources for n in ("old", "new"))
    shown = {f["key"]: (f["before"], f["after"]) for f in found["figures"]}
    assert shown["cycles"] == (old.cycles, new.cycles)
    assert shown["interval"] == (old.interval, new.interval)
    assert shown["operations"] == (old.operations, new.operations)
    assert shown["memory"] == (old.storage.total, new.storage.total)
    assert shown["bytes_in"] == (old.io.bytes_in, new.io.bytes_in)
    assert shown["energy_fj"] == (old.energy_fj, new.energy_fj)
    assert found["changed"]
    # what the operations gained is what the whole gained
    for column, figure in (("operations", "operations"), ("cycles", "cycles"), ("storage", "memory")):
        gained = sum(
            (o["after"] or {}).get(column, 0) - (o["before"] or {}).get(column, 0) for o in found["operations"]
        )
        assert gained == shown[figure][1] - shown[figure][0]


def test_nothing_is_said_when_nothing_changed(files, capsys):
    for form in ("text", "markdown", "json"):
        assert diff(files, "old.onnx", "old.onnx", "--dim", "batch=2", "--format", form) == 0
    assert capsys.readouterr() == ("", "")


def test_programs_and_text_are_compared_like_models(files, capsys):
    program = compiler.compile(compiler.load(files / "old.onnx", {"batch": 2}))
    (files / "old.bin").write_bytes(program.to_bytes())
    assert diff(files, "old.bin", "old.onnx", "--dim", "batch=2") == 0
    assert capsys.readouterr().out == ""
    (files / "small.txt").write_text(SMALL, encoding="utf-8")
    (files / "smaller.txt").write_text(SMALL.replace("[4", "[2"), encoding="utf-8")
    assert diff(files, "small.txt", "smaller.txt") == 0
    assert capsys.readouterr().out.startswith("Changed: ")


def test_markdown_folds_the_operations_and_names_say_nothing_to_it(files, capsys):
    assert diff(files, "old.onnx", "more.onnx", "--dim", "batch=2", "--format", "markdown") == 0
    text = capsys.readouterr().out
    assert text.startswith("**Changed: latency ")
    assert text.count("<details>") == text.count("</details>") == 1
    assert "<script>" not in text
    assert r"a\|b&lt;script&gt;\`x\` \*y\*" in text
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1


def test_an_operation_put_in_front_leaves_the_others_what_they_were(files, capsys):
    onnx.save(network(12, first="squash"), files / "front.onnx")
    assert diff(files, "old.onnx", "front.onnx", "--dim", "batch=2", "--json") == 0
    found = json.loads(capsys.readouterr().out)["operations"]
    new = {o["name"].split("/")[0] for o in found if o["before"] is None}
    assert "squash" in new
    assert not new & {"first", "relu", "second"}
    assert not [o for o in found if o["after"] is None]


def test_the_verdict_is_whole_and_tells_prices_together():
    figures = (
        Figure("cycles", "latency", "cycles", 4, 5),
        *(
            Figure(f"price.{n}", f"price of 1,000, {n}", "EUR", Decimal(before), Decimal(after))
            for n, before, after in (("flex", 2, 3), ("standard", 4, 6))
        ),
    )
    found = Difference(("a", "b"), "lpu", "float32", ("", ""), figures, ())
    assert rendered(found, "text").startswith("Changed: latency +25.0 %, price +50.0 %.\n")
    over = replace(found, over=("x" * 300,))
    assert "x" * 300 in rendered(over, "markdown")


def test_a_budget_is_kept_to_the_last_cycle(files, capsys):
    latency = compiler.compile(compiler.load(files / "new.onnx", {"batch": 2})).resources.cycles
    before = compiler.compile(compiler.load(files / "old.onnx", {"batch": 2})).resources.cycles
    budget = files / "budget.toml"
    exact = Decimal(latency - before) * 100 / before
    for text, status in (
        (f"cycles = {latency}", 0),
        (f"cycles = {latency - 1}", 1),
        (f"[growth]\ncycles = {exact + Decimal('0.01'):.6f}", 0),
        (f"[growth]\ncycles = {exact - Decimal('0.01'):.6f}", 1),
    ):
        budget.write_text(text, encoding="utf-8")
        assert diff(files, "old.onnx", "new.onnx", "--dim", "batch=2", "--budget", str(budget)) == status
        assert capsys.readouterr().out.startswith("Over budget: latency " if status else "Changed: ")
    # a budget that an unchanged model exceeds is exceeded
    budget.write_text("cycles = 1", encoding="utf-8")
    assert diff(files, "old.onnx", "old.onnx", "--dim", "batch=2", "--budget", str(budget)) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cycles = ", "no TOML"),
        ("cycle = 3", "no figure 'cycle'"),
        ("cycles = true", "at least 0"),
        ("cycles = -1", "at least 0"),
        ("cycles = nan", "at least 0"),
        ("growth = 3", "is a table"),
        ("[growth]\nspeed = 3", "no figure 'speed'"),
        ("[price]\nbatch = 0.5", "it limits price.batch, which needs a price book; download one under Prices"),
    ],
)
def test_a_wrong_budget_is_refused(files, text, says, capsys):
    (files / "budget.toml").write_text(text, encoding="utf-8")
    arguments = ("--dim", "batch=2", "--budget", str(files / "budget.toml"))
    assert diff(files, "old.onnx", "old.onnx", *arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert says in error


@pytest.mark.parametrize(
    ("new", "arguments", "says"),
    [
        ("nowhere.onnx", ["--dim", "batch=2"], "nowhere.onnx: there is no such file; give a model"),
        ("new.onnx", [], "leaves dimensions open"),
        ("new.onnx", ["--dim", "batch=0"], "NAME=SIZE"),
        ("new.onnx", ["--dim", "batch=2", "--target", "abacus"], "no target"),
        (
            "new.onnx",
            ["--dim", "batch=2", "--budget", "/nowhere.toml"],
            "--budget /nowhere.toml: there is no such file",
        ),
        ("other.bin", ["--dim", "batch=2"], "differ in target"),
        ("cut.bin", ["--dim", "batch=2"], "cut.bin"),
    ],
)
def test_bad_input_is_one_line_and_another_status(files, new, arguments, says, capsys):
    if new == "other.bin":
        program = compiler.compile(compiler.load(files / "old.onnx", {"batch": 2}), target="lpu2")
        (files / new).write_bytes(program.to_bytes())
    (files / "cut.bin").write_bytes(b"TAKTBIN\n\0\0")
    assert diff(files, "old.onnx", new, *arguments) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1
    assert says in error


@given(before=st.integers(1, 10**12), after=st.integers(0, 10**12))
def test_a_change_is_never_shown_as_none(before, after):
    shown = percent(Fraction(after, before) - 1)
    if after == before:
        assert shown == "+0.0 %"
    else:
        assert shown[0] == ("+" if after > before else "-")
        assert shown[1:] != "0.0 %"


def test_long_lists_are_cut_and_json_has_all():
    operations = tuple(
        Operation(f"op{n}", "map", None, dict.fromkeys(("cycles", "operations", "storage", "energy_fj"), n))
        for n in range(MOST + 5)
    )
    found = Difference(
        ("a", "b"), "lpu", "float32", ("", ""), (Figure("cycles", "latency", "cycles", 0, 4),), operations
    )
    assert "and 5 more operations" in rendered(found, "markdown")
    assert "and 5 more operations" in rendered(found, "text")
    assert len(json.loads(rendered(found, "json"))["operations"]) == MOST + 5


def test_a_budget_reads_exact_numbers():
    budget = read_budget('cycles = 10\n[growth]\nmemory = 0.1\n"price.flex" = 2\n[price]\nflex = 0.30\n')
    assert budget.most == {"cycles": 10, "price.flex": Decimal("0.30")}
    assert budget.growth == {"memory": Decimal("0.1"), "price.flex": 2}
