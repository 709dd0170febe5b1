"""No request of a signed-in user makes a web process allocate more than 256 MiB: measured on a real one, by the kernel."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import os
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.utils import timezone

from apps.accounts.models import Organisation, User
from apps.accounts.roles import Scope
from apps.accounts.services import token_create
from apps.dispatch.execution import lease_execute
from apps.dispatch.models import Job, Lease
from apps.dispatch.services import job_advance, leases_offer_due
from apps.sales.models import Contract
from tests.cast import Cast
from tests.dispatch.real import real_program
from tests.dispatch.scene import Scene
from tests.registry.helpers import version_of
from tests.sales.market import open_market
from tests.tiers import part
from tests.upgrade.release_0_1_0.things import choosing_model

MIB = 2**20
MOST = 256 * MIB
ROOT = Path(settings.BASE_DIR)
CSRF = "a" * 32


@dataclass
class Web:
    """A web process of its own, with a person who has signed in and a token."""

    port: int
    worker: int
    cookie: str
    token: str

    def grows(self, method: str, path: str, body: bytes = b"", kind: str = "application/json") -> tuple[int, int]:
        """The status, and by how much the process was larger meanwhile than before, in bytes."""
        memory = Path(f"/proc/{self.worker}")
        (memory / "clear_refs").write_text("5")  # the peak begins anew
        before = self._status("VmRSS")
        asked = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        with contextlib.suppress(BrokenPipeError):  # refused before all of it was sent
            asked.request(method, path, body, {"Content-Type": kind, **self._who(path)})
        answer = asked.getresponse()
        answer.read()
        asked.close()
        return answer.status, self._status("VmHWM") - before

    def _who(self, path: str) -> dict[str, str]:
        if path.startswith("/api/"):
            return {"Authorization": f"Bearer {self.token}"}
        return {"Cookie": f"sessionid={self.cookie}; csrftoken={CSRF}", "X-CSRFToken": CSRF}

    def _status(self, name: str) -> int:
        text = Path(f"/proc/{self.worker}/status").read_text()
        return int(next(line for line in text.splitlines() if line.startswith(f"{name}:")).split()[1]) * 1024


@pytest.fixture
def scene(transactional_db: None, cast: Cast) -> Scene:
    return Scene(open_market(devices=2), cast, timezone.now())


@pytest.fixture
def web(scene: Scene) -> Iterator[Web]:
    database = connection.settings_dict
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "MEDIA_ROOT": settings.MEDIA_ROOT,
        "PYTHONPATH": str(ROOT),
        "DATABASE_URL": f"postgres://{database['USER']}@{quote(str(database['HOST']), safe='')}/{database['NAME']}",
    }
    command = [
        sys.executable,
        "-m",
        "gunicorn",
        "apps.config.wsgi",
        "--bind",
        f"127.0.0.1:{port}",
        "--workers",
        "1",
        "--threads",
        "2",
        "--no-control-socket",
        "--timeout",
        "120",
    ]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True)
    try:
        yield _ready(process, port, scene.cast.owner, scene.cast.organisation)
    finally:
        process.terminate()
        process.wait(timeout=20)


def _ready(process: subprocess.Popen[bytes], port: int, owner: User, organisation: Organisation) -> Web:
    browser = Client()
    browser.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    scopes = [Scope.READ, Scope.BUILD, Scope.RUN]
    _, secret = token_create(user=owner, organisation=organisation, name="t", scopes=scopes, now=timezone.now())
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        if children:
            made = Web(port, int(children[0]), browser.cookies["sessionid"].value, secret)
            try:
                # The first request loads every page; only what comes after it is measured.
                if made.grows("GET", "/jobs/new")[0] == made.grows("GET", "/api/v1/jobs")[0] == 200:
                    return made
            except OSError:
                pass
        time.sleep(0.2)
    raise AssertionError("the web process did not start")


def test_no_request_makes_the_web_process_large(web: Web, scene: Scene) -> None:
    images = scene.program(shape=(1, 3, 224, 224), operations=1_000)  # 588 KiB an item
    small = scene.program(shape=(1, 64), operations=1_000)
    contract, other = (scene.contract((one, 300_000)) for one in (images, small))
    version = version_of(scene.cast, choosing_model(), "choosing")
    requests: list[tuple[str, int | None, Callable[[], Request]]] = [
        ("99,999 made-up items of 588 KiB", 302, lambda: _form(contract, sample_items=b"99999")),
        ("the most made-up items", 302, lambda: _form(other, sample_items=b"100000")),
        ("64 MB of inputs", 201, lambda: _npz(contract, _arrays(x=np.zeros((108, 1, 3, 224, 224), "float32")))),
        (
            "the same as whole numbers that become float32",
            422,
            lambda: _npz(contract, _arrays(x=np.zeros((400, 3, 224, 224), "int8"))),
        ),
        ("64 MB that are converted", 201, lambda: _npz(other, _arrays(x=np.ones((120_000, 64), "int64")))),
        ("an array of gigabytes in a small file", 422, lambda: _npz(contract, _bomb(2 * 1024 * MIB))),
        ("a header of gigabytes without its data", 422, lambda: _npz(contract, _claim((1 << 34,)))),
        ("many arrays that claim all there is", 422, lambda: _npz(contract, _claim((15 * MIB,), members=200))),
        ("objects in JSON", 413, lambda: _json(other, b"[" + b'{"":0},' * 1_100_000 + b"0]")),
        ("numbers in JSON", 422, lambda: _json(other, b"[" + b"1.5," * 2_000_000 + b"0]")),
        ("deep JSON", 413, lambda: _json(other, b"[" * 4_000_000)),
        ("texts in JSON", 422, lambda: _json(other, b"[" + b'"ab",' * 1_500_000 + b"0]")),
        ("a body of more than 8 MiB", 413, lambda: ("POST", "/api/v1/jobs", b"1" * (9 * MIB), "application/json")),
        (
            "a form of 8 MiB in small fields",
            400,
            lambda: ("POST", "/jobs/new", b"a=1&" * (2 * MIB), "application/x-www-form-urlencoded"),
        ),
        (
            "examples of 63 MiB",
            302,
            lambda: _multipart(
                f"/versions/{version.pk}", {"targets": b"lpu", "precision": b"int8"}, calibration=os.urandom(63 * MIB)
            ),
        ),
        (
            "a processor of many megabytes",
            None,
            lambda: _multipart("/processors", {}, file=b"a=[" + b"1," * (4 * MIB)),
        ),
    ]
    expected = {name: status for name, status, _ in part(requests)}
    found = {name: web.grows(*request()) for name, _, request in part(requests)}
    told = {name: f"{status}, {growth / MIB:.0f} MiB" for name, (status, growth) in found.items()}
    assert all(growth < MOST for _, growth in found.values()), told
    assert max(growth for _, growth in found.values()) > 32 * MIB, f"nothing was measured: {told}"
    wrong = {name: told[name] for name, status in expected.items() if status not in (None, found[name][0])}
    assert not wrong
    assert all(status < 500 for status, _ in found.values()), told
    assert Job.objects.filter(seed__isnull=False, inputs_key="").count() == sum(
        "made-up items" in name for name in expected
    )


def test_made_up_items_are_made_where_they_run(scene: Scene) -> None:
    """Each block's depend on the seed and their own numbers alone: a block that runs twice, or alone, gives the same."""
    from apps.dispatch.services import job_create
    from apps.dispatch.services.jobs import Seeded

    program = real_program(scene, width=8)
    contract = scene.contract((program, 600))
    job = job_create(contract=contract, arrays=Seeded(300), actor=scene.cast.engineer, now=scene.now)
    seen = []
    for lease in Lease.objects.filter(stage__job=job).order_by("from_item"):
        at = max(scene.now, lease.device_from)
        leases_offer_due(now=at)
        lease.refresh_from_db()
        assert lease_execute(lease_id=lease.pk, epoch=lease.epoch, host="here", clock=lambda: at)  # noqa: B023
        seen.append(lease.count)
    assert len(seen) > 1
    job_advance(job_id=job.pk, now=at)
    job.refresh_from_db()
    from django.core.files.storage import default_storage

    with default_storage.open(job.outputs_key) as file, np.load(io.BytesIO(file.read())) as archive:
        (outputs,) = (archive[name] for name in archive.files)
    assert len(outputs) == 300
    assert len(np.unique(outputs.reshape(300, -1), axis=0)) == 300, "no item is another's"


Request = tuple[str, str, bytes, str]


def _multipart(path: str, fields: dict[str, bytes], **files: bytes) -> Request:
    parts = [(f'name="{name}"', value) for name, value in fields.items()]
    parts += [(f'name="{name}"; filename="{name}.bin"', value) for name, value in files.items()]
    body = b"".join(
        b"--edge\r\nContent-Disposition: form-data; " + head.encode() + b"\r\n\r\n" + value + b"\r\n"
        for head, value in parts
    )
    return "POST", path, body + b"--edge--\r\n", "multipart/form-data; boundary=edge"


def _form(contract: Contract, **fields: bytes) -> Request:
    return _multipart("/jobs/new", {"contract": str(contract.pk).encode(), **fields})


def _npz(contract: Contract, data: bytes) -> Request:
    return _multipart("/api/v1/jobs/npz", {"contract": str(contract.pk).encode()}, inputs=data)


def _json(contract: Contract, nested: bytes) -> Request:
    body = b'{"contract":"' + str(contract.pk).encode() + b'","inputs":{"x":' + nested + b"}}"
    return "POST", "/api/v1/jobs", body, "application/json"


def _arrays(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def _written(write: Callable[[zipfile.ZipFile], None]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        write(archive)
    return file.getvalue()


def _bomb(size: int) -> bytes:
    """An array of so many bytes, all zero."""

    def write(archive: zipfile.ZipFile) -> None:
        with archive.open("x.npy", "w", force_zip64=True) as part:
            np.lib.format.write_array_header_1_0(part, {"descr": "|u1", "fortran_order": False, "shape": (size,)})
            for _ in range(size // (16 * MIB)):
                part.write(bytes(16 * MIB))

    return _written(write)


def _claim(shape: tuple[int, ...], *, members: int = 1) -> bytes:
    """Headers of that shape, and no data."""

    def write(archive: zipfile.ZipFile) -> None:
        for number in range(members):
            with archive.open(f"x{number}.npy" if number else "x.npy", "w") as part:
                np.lib.format.write_array_header_1_0(part, {"descr": "<f4", "fortran_order": False, "shape": shape})

    return _written(write)


def test_json_is_json() -> None:
    """The bodies above are what they say."""
    assert json.loads(b"[" + b'{"":0},' * 3 + b"0]") == [{"": 0}] * 3 + [0]
