"""While a program is compiled nothing looks for cycles; afterwards everything is as it was."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

import compiler
from compiler.errors import ModelError

MODEL = (Path(__file__).parents[2] / "samples" / "digits-small.onnx").read_bytes()


@pytest.mark.parametrize("on", [True, False])
def test_the_search_for_cycles_stands_still_while_compiling(on: bool) -> None:
    heard: list[bool] = []
    was = gc.isenabled()
    try:
        (gc.enable if on else gc.disable)()
        compiler.compile(compiler.load(MODEL), on_stage=lambda _: heard.append(gc.isenabled()))
        assert set(heard) == {False}
        assert gc.isenabled() is on
        with pytest.raises(ModelError):
            compiler.compile(compiler.load(MODEL), target="lpu", precision="int8", calibration=[{}])
        assert gc.isenabled() is on
    finally:
        (gc.enable if was else gc.disable)()
