"""Logs stay bounded, and their writers go on."""

from __future__ import annotations

from pathlib import Path

from bin.logs import OLDER_KEPT, logs_rotate


def test_a_full_log_is_kept_aside_and_its_writer_goes_on(tmp_path: Path) -> None:
    path, small = tmp_path / "web.log", tmp_path / "scheduler.log"
    small.write_text("little")
    with path.open("ab", buffering=0) as writer:  # as our parts and both servers open theirs
        for number in range(OLDER_KEPT + 3):
            writer.write(f"{number}: {'x' * 100}\n".encode())
            assert logs_rotate([path, small, tmp_path / "none.log"], bytes_max=100) == [path]
            assert path.stat().st_size == 0
        writer.write(b"next")
    assert path.read_text() == "next"
    kept = sorted(one.name for one in tmp_path.glob("web.log.*"))
    assert kept == [f"web.log.{number}" for number in range(1, OLDER_KEPT + 1)]
    assert path.with_name("web.log.1").read_text().startswith(f"{OLDER_KEPT + 2}: ")
    assert path.with_name(f"web.log.{OLDER_KEPT}").read_text().startswith("3: ")
    assert small.read_text() == "little"
