"""Models whose weights are in side files: uploaded together, stored as one file, compiled and run."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django import Settings

import compiler
from apps.accounts.models import User
from apps.compilation.models import CompileJob, Program
from apps.compilation.selectors import program_bytes
from apps.dispatch.runners.kept import session_of
from apps.registry.models import ModelVersion
from apps.registry.packages import PackageError, model_unpack, package_is
from apps.registry.selectors import modelversion_bytes
from tests.cast import Cast
from tests.compilation.helpers import ask, run
from tests.registry import models
from tests.registry.helpers import check_all, nothing_is_left, stored_files, upload

AsUser = Callable[[User], Client]
FEED = {"x": np.arange(4, dtype=np.float32).reshape(1, 4)}


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return made.getvalue()


def tarred(files: dict[str, bytes], **odd: object) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            for key, value in odd.items():
                setattr(member, key, value)
            archive.addfile(member, io.BytesIO(data))
    return made.getvalue()


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_an_archive_becomes_a_version_that_compiles_and_runs_on_the_host_too(
    cast: Cast, as_user: AsUser, pack: Callable[[dict[str, bytes]], bytes]
) -> None:
    client, data = as_user(cast.engineer), pack(models.with_side_file())
    answer = upload(client, data)
    assert answer.status_code == 201, answer.json()
    version = ModelVersion.objects.get()
    assert (version.size, version.parameters) == (len(data), 16)
    assert modelversion_bytes(version) == data
    assert client.get(f"/api/v1/versions/{version.pk}/file").getvalue() == data
    job = run(ask(cast, version, dims={"n": 1} if version.symbolic_dims else {}))
    assert job.state == CompileJob.State.DONE, job.error
    program = Program.objects.get()
    found, counters = compiler.simulate(program_bytes(program), FEED)
    assert counters.to_json() == program.resources
    on_host = session_of(version).run(None, FEED)[0]
    np.testing.assert_array_equal(found["y"], on_host)
    np.testing.assert_array_equal(found["y"], FEED["x"])


def test_the_form_takes_several_files(cast: Cast, as_user: AsUser) -> None:
    client = as_user(cast.engineer)
    files = [SimpleUploadedFile(name, data) for name, data in models.with_side_file().items()]
    answer = client.post("/models/upload", {"file": files})
    assert answer.status_code == 302
    check_all()
    version = ModelVersion.objects.get()
    assert (version.filename, version.model.name) == ("net.tar", "net")


def refused(client: Client, data: bytes) -> str:
    answer = upload(client, data)
    assert answer.status_code == 422
    assert nothing_is_left()
    return " ".join(error["message"] for error in answer.json()["errors"])


def without(name: str) -> dict[str, bytes]:
    return {n: data for n, data in models.with_side_file().items() if n != name}


SMALL = models.with_side_file()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (zipped(without("weights.bin")), "'weights.bin', which is not there"),
        (zipped(without("net.onnx")), "has 0 files named *.onnx"),
        (zipped(SMALL | {"other.bin": b"1"}), "no tensor of the model names it"),
        (zipped(SMALL | {"weights.bin": b"1" * 63}), "lies at bytes 0 to 64 of 'weights.bin', which has 63"),
        (zipped(SMALL | {"../up.bin": b"1"}), "has a file named '../up.bin'"),
        (tarred(SMALL | {"/etc/up.bin": b"1"}), "has a file named '/etc/up.bin'"),
        (tarred(SMALL, type=tarfile.SYMTYPE, linkname="/etc/passwd"), "is no file but a link"),
        (zipped(models.with_side_file(location="../weights.bin")), "not below the model's folder"),
        (zipped(models.with_side_file(offset="4")), "lies at bytes 4 to 68"),
        (zipped(models.with_side_file(length="60")), "has 60 bytes in 'weights.bin', but its shape needs 64"),
        (zipped(SMALL)[:-30], "The archive is damaged"),
        (zipped(SMALL | {f"part-{n}.bin": b"" for n in range(200)}), "at most 200 belong to a model"),
    ],
)
def test_an_archive_that_is_not_a_model_with_its_files_is_refused_in_words(
    cast: Cast, as_user: AsUser, data: bytes, words: str
) -> None:
    assert words in refused(as_user(cast.engineer), data)


def test_an_archive_may_not_unpack_to_more_than_an_upload(cast: Cast, as_user: AsUser, settings: Settings) -> None:
    settings.UPLOAD_BYTES_MAX = 10_000
    bomb = zipped(SMALL | {"weights.bin": bytes(100_000)})
    assert len(bomb) < 10_000
    assert "the maximum is 10,000" in refused(as_user(cast.engineer), bomb)


def test_what_a_zip_says_is_a_link_is_unpacked_as_a_file(tmp_path: Path) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in SMALL.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(info, data)
    (tmp_path / "file").write_bytes(made.getvalue())
    path = model_unpack(tmp_path / "file", bytes_max=10_000)
    assert not any(one.is_symlink() for one in path.parent.iterdir())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
@given(
    st.sampled_from([zipped(SMALL), tarred(SMALL)]),
    st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), max_size=6),
)
def test_changed_bytes_of_an_archive_end_in_a_model_or_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, changes: list[tuple[float, int]]
) -> None:
    changed = bytearray(data)
    for where, value in changes:
        changed[int(where * len(changed))] = value
    file = tmp_path_factory.mktemp("archive") / "file"
    file.write_bytes(changed)
    try:
        path = model_unpack(file, bytes_max=100_000)
    except PackageError:
        return
    assert path == file or path.is_relative_to(file.parent / "unpacked")
    assert (path == file) != package_is(bytes(changed[:512]))


def test_nothing_of_a_refused_archive_is_stored(cast: Cast, as_user: AsUser) -> None:
    refused(as_user(cast.engineer), zipped(without("weights.bin")))
    assert stored_files() == []
