"""Public data of benchmarks: found, or fetched once and held to their digest."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from benchmarks import data as public

CONTENT = b"a,b\n1,2\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A list of one file, whose address is a file here."""
    origin = tmp_path / "origin.csv"
    origin.write_bytes(CONTENT)
    digest = hashlib.sha256(CONTENT).hexdigest()
    text = f'[one-x]\naddress = "{origin.as_uri()}"\nbeside = "one/x.csv"\nlicence = "CC0"\nsha256 = "{digest}"\n'
    (tmp_path / "data.toml").write_text(text, encoding="utf-8")
    known = public.listed(tmp_path / "data.toml")
    monkeypatch.setattr(public, "listed", lambda: known)
    monkeypatch.setattr(public, "BESIDE", tmp_path / "beside")
    monkeypatch.setattr(public, "FETCHED", tmp_path / "var")
    return tmp_path


def test_data_are_fetched_once(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert public.main([]) == 0
    path = place / "var" / "one" / "x.csv"
    assert str(path) in capsys.readouterr().out
    assert path.read_bytes() == CONTENT
    (place / "origin.csv").unlink()
    assert public.data("one-x") == path
    assert public.data_folder("one-") == path.parent


def test_data_beside_the_checkout_are_not_fetched(place: Path) -> None:
    path = place / "beside" / "one" / "x.csv"
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    (place / "origin.csv").unlink()
    assert public.data("one-x") == path
    path.write_bytes(b"another")
    with pytest.raises(public.DataMissing, match=r"cannot be fetched .*; save it as "):
        public.data("one-x")


def test_another_file_at_the_address_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "origin.csv").write_bytes(b"another")
    assert public.main(["one-x"]) == 1
    assert "its digest differs" in capsys.readouterr().err
    assert not (place / "var").exists()


def test_the_list_names_a_licence_and_a_digest_for_each() -> None:
    for entry in public.listed().values():
        assert entry["address"].startswith("https://")
        assert entry["licence"]
        assert len(entry["sha256"]) == 64
