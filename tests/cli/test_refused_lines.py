"""A line that names what cannot be compiled here: said of the line, without options that verifying does not take."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from apps.cli.main import UNUSABLE, WRONG
from apps.pricing.rating import digest_of
from tests.cast import Cast
from tests.cli.test_verify import Papers


@pytest.fixture
def papers(tmp_path: Any, cast: Cast) -> Papers:
    return Papers(tmp_path, cast)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("target", "chip", "there is no target 'chip'; known targets: "),
        ("dims", {"nosuch": 3}, "no open dimension 'nosuch'"),
        ("precision", "int4", "precision 'int4' is not offered"),
    ],
)
def test_a_line_that_cannot_be_compiled_is_named(
    key: str, value: object, says: str, papers: Papers, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = copy.deepcopy(papers.invoice)
    changed["lines"][0]["program"][key] = value
    assert papers.run(changed) == WRONG, "its digest tells that it was changed"
    changed["digest"] = digest_of({name: part for name, part in changed.items() if name != "digest"})
    capsys.readouterr()
    assert papers.run(changed) == UNUSABLE
    said = capsys.readouterr().err
    assert said.startswith("takt: line 1: ")
    assert "cannot be compiled as the line says: " in said
    assert says in said
    assert "--" not in said
