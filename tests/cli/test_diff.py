"""`takt diff`: the difference that the compiler finds, and what it costs by the price book."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path

import onnx
import pytest

from apps.cli.main import main
from tests.compiler.face.test_diff import network
from tests.pricing.rating.books import SHIPPED


@pytest.fixture
def models(tmp_path: Path) -> list[str]:
    paths = [tmp_path / "old.onnx", tmp_path / "new.onnx"]
    for path, hidden in zip(paths, (12, 300), strict=True):
        onnx.save(network(hidden), path)
    return [*map(str, paths), "--dim", "batch=2"]


def _prices(model: str, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    assert main(["report", model, "--book", str(SHIPPED), "--dim", "batch=2", "--json"]) == 0
    return {row["class"]: row["amount"] for row in json.loads(capsys.readouterr().out)["prices"]}


def test_prices_are_those_of_the_report(models: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    before, after = (_prices(model, capsys) for model in models[:2])
    assert main(["diff", *models, "--book", str(SHIPPED), "--format", "json"]) == 0
    rows = [f for f in json.loads(capsys.readouterr().out)["figures"] if f["key"].startswith("price.")]
    assert {r["key"]: r["before"] for r in rows} == {f"price.{name}": amount for name, amount in before.items()}
    assert {r["key"]: r["after"] for r in rows} == {f"price.{name}": amount for name, amount in after.items()}
    assert any(r["before"] != r["after"] for r in rows)


def test_a_budget_limits_prices(models: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, amount = next((n, a) for n, a in _prices(models[1], capsys).items() if a is not None)
    budget = tmp_path / "budget.toml"
    arguments = ["diff", *models, "--book", str(SHIPPED), "--budget", str(budget), "--format", "markdown"]
    budget.write_text(f"[price]\n{name} = {Decimal(amount)}\n", encoding="utf-8")
    assert main(arguments) == 0
    budget.write_text(f"[price]\n{name} = {Decimal(amount) * Decimal('0.999')}\n", encoding="utf-8")
    capsys.readouterr()
    assert main(arguments) == 1
    assert capsys.readouterr().out.startswith("**Over budget: price of 1,000")


def test_prices_are_told_as_the_pages_tell_them(models: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Four significant digits, in the scale that reads well, whatever number of executions is priced to the digit."""
    said = set()
    for count in ("7", "1000"):
        assert main(["diff", *models, "--book", str(SHIPPED), "--executions", count]) == 0
        said |= {line for line in capsys.readouterr().out.splitlines() if "price per" in line}
    assert len(said) == 4
    million = Decimal(_prices(models[1], capsys)["standard"]) * 1000
    assert any(
        re.search(rf"price per million executions, Standard +EUR [0-9.]+ +EUR {_four(million)}", line) for line in said
    )

    assert main(["report", models[1], "--dim", "batch=2", "--book", str(SHIPPED), "--executions", "7", "--steps"]) == 0
    text = capsys.readouterr().out
    assert "price per million executions, and of 7 exactly, price book 1:" in text
    assert re.search(rf"Standard +EUR {_four(million)} +EUR {million * 7 / 10**6:f}", text)
    assert "times EUR 8.00 per thousand tera-operations = " in text
    assert text.isascii()


def _four(value: Decimal) -> str:
    return re.escape(format(Decimal(f"{value:.3e}").normalize(), "f"))


def test_without_a_change_nothing_is_said(models: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", models[0], models[0], *models[2:], "--book", str(SHIPPED)]) == 0
    assert capsys.readouterr() == ("", "")


def test_bad_input_is_one_line(models: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *models[:2]]) == 2
    assert main(["diff", *models, "--executions", "0"]) == 2
    assert main(["diff", *models, "--book", models[0]]) == 2
    assert capsys.readouterr().err.count("\n") == 3
