"""A large model through the running product: upload, check, compile, report, quote, contract, job on the host pool.

`benchmarks.large --site` runs it. Everything is real: the product's processes as of `make run`, requests by HTTP, tasks by
Celery. The memory of every process is watched, those of checks and compiles too.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from apps.registry.packages import package_write
from benchmarks.client import ROOT, wait_for
from takt import Client, Refused
from takt.records import Contract, Program, Version
from tests.e2e.product import running_product

FILES = ("model.onnx", "weights.bin")
ITEMS = 2
PATIENCE = 3600.0
SAMPLE_SECONDS = 0.1
EDGES = 10_000_000  # bytes that an archive and a form add to the files
_STATUS = re.compile(r"^(VmHWM|RssAnon):\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True)
class Site:
    """A running product: its address, a customer's token and sign-in, and the processes by name, each in a session of its own."""

    url: str
    token: str
    email: str
    password: str
    processes: Mapping[str, subprocess.Popen[bytes]]


@dataclass
class Watch:
    """Peak memory of each process of a site while it is watched, in bytes by process: all of it, pages of mapped files
    included, and what is the process's own."""

    site: Site
    whole: dict[str, int] = field(default_factory=dict)
    own: dict[str, int] = field(default_factory=dict)

    def sample(self) -> None:
        """Look at every process once. Each part of the product is a session, whose children are named by their module."""
        sessions = {process.pid: name for name, process in self.site.processes.items()}
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, ValueError, IndexError):  # it may have ended
                session = int((folder / "stat").read_text().rpartition(")")[2].split()[3])
                if session in sessions:
                    self._keep(_name(sessions[session], folder), (folder / "status").read_text())

    def _keep(self, name: str, status: str) -> None:
        found = {key: int(kilobytes) * 1024 for key, kilobytes in _STATUS.findall(status)}
        self.whole[name] = max(self.whole.get(name, 0), found.get("VmHWM", 0))
        self.own[name] = max(self.own.get(name, 0), found.get("RssAnon", 0))


def _name(part: str, folder: Path) -> str:
    words = (folder / "cmdline").read_bytes().split(b"\0")
    module = next((word.decode() for word in words if word.startswith(b"apps.") and word.endswith(b".child")), "")
    return module or part


@contextmanager
def watched(site: Site) -> Iterator[Watch]:
    """Watch the memory of a site's processes until the block ends."""
    watch, over = Watch(site), threading.Event()

    def look() -> None:
        while not over.wait(SAMPLE_SECONDS):
            watch.sample()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        over.set()
        thread.join()
        watch.sample()


@dataclass
class Walk:
    """How the model fared: seconds of each stage, facts about its program, whether its outputs were right."""

    watch: Watch
    seconds: dict[str, float] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    is_equal: bool = False


@contextmanager
def running_site(size: int) -> Iterator[Site]:
    """A product of its own for a model of `size` bytes, whose limits are raised where they are smaller than the model."""
    os.environ |= {
        "UPLOAD_BYTES_MAX": str(max(512 * 2**20, size + EDGES)),
        "COMPILE_SECONDS_MAX": str(int(PATIENCE)),
        "NEWCOMER_CREDIT": "none",
    }
    with running_product() as product:
        demo = product.demo
        yield Site(product.url, demo["token"], demo["email"], demo["password"], product.processes)


def walk(site: Site, folder: Path, *, way: str) -> Walk:
    """Take the model in `folder` through a site, by the upload form with a session or in pieces with a token."""
    with watched(site) as watch, Client(site.url, site.token, timeout=PATIENCE) as client:
        found, began = Walk(watch), time.monotonic()

        def done(stage: str) -> None:
            nonlocal began
            found.seconds[stage], began = time.monotonic() - began, time.monotonic()
            print(f"{stage:10} {found.seconds[stage]:7.1f} s", flush=True)

        version = _by_form(site, client, folder) if way == "form" else _in_pieces(client, folder)
        done("upload")
        (program,) = client.compile(version, target="systolic", timeout=PATIENCE)
        done("compile")
        found.facts = _reported(site, client, program)
        done("report")
        contract = _bought(client, program)
        done("contract")
        feeds = _feeds(program)
        job = client.wait(client.submit(contract, feeds), timeout=PATIENCE)
        outputs = client.outputs(job)
        done("job")
        found.facts |= {"cost": job.cost, "net": contract.net}
    found.is_equal = _equals_runtime(folder, feeds, outputs)
    return found


def _by_form(site: Site, client: Client, folder: Path) -> Version:
    """Upload the files together with the form of the page, as a person without JavaScript does."""
    with httpx.Client(base_url=site.url, timeout=PATIENCE, follow_redirects=True) as browser:
        _sign_in(browser, site)
        page = browser.get("/models/upload")
        with (folder / FILES[0]).open("rb") as model, (folder / FILES[1]).open("rb") as weights:
            sent = [("file", (name, file)) for name, file in zip(FILES, (model, weights), strict=True)]
            answer = browser.post("/models/upload", files=sent, data={"csrfmiddlewaretoken": _token(page)})
        if answer.status_code != httpx.codes.OK or "/uploads/" not in answer.url.path:
            raise RuntimeError(f"The form answers {answer.status_code} at {answer.url.path}: {_text(answer)[:600]}")
        upload = answer.url.path.rstrip("/").rpartition("/")[2]
    ended = wait_for("the check", lambda: client._upload_ended(f"/uploads/{upload}"), PATIENCE)
    return client.version(ended["version_id"])


def _sign_in(browser: httpx.Client, site: Site) -> None:
    page = browser.get("/sign-in")
    person = {"login": site.email, "password": site.password}
    answer = browser.post("/sign-in", data={**person, "csrfmiddlewaretoken": _token(page)})
    if "sessionid" not in browser.cookies:
        raise RuntimeError(f"Signing in answers {answer.status_code}: {_text(answer)[:300]}")


def _token(page: httpx.Response) -> str:
    found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    if found is None:
        raise RuntimeError(f"{page.url.path} answers {page.status_code} without a form.")
    return found.group(1)


def _text(page: httpx.Response) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page.text).split())


def _in_pieces(client: Client, folder: Path) -> Version:
    """Upload one archive of the files in pieces, as the page with JavaScript does."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        archive = Path(name) / "model.tar"
        with archive.open("wb") as target, (folder / FILES[0]).open("rb") as model, (folder / FILES[1]).open("rb") as w:
            sizes = [(folder / name).stat().st_size for name in FILES]
            package_write(list(zip(FILES, sizes, (model, w), strict=True)), target)
        return client.upload(archive, name="large", timeout=PATIENCE)


def _reported(site: Site, client: Client, program: Program) -> dict[str, Any]:
    """The figures of the report, from the API; its page must open too."""
    headline = client.report(program)["headline"]
    with httpx.Client(base_url=site.url, timeout=PATIENCE, follow_redirects=True) as browser:
        _sign_in(browser, site)
        page = browser.get(f"/programs/{program.id}")
    if page.status_code != httpx.codes.OK:
        raise RuntimeError(f"The page of the report answers {page.status_code}: {_text(page)[:300]}")
    return {
        "latency": headline["latency_cycles"],
        "external": program.resources["storage"]["external"],
    }


def _bought(client: Client, program: Program) -> Contract:
    """A contract for `ITEMS` executions on the host pool, once it has measured the model."""
    pool = next(one.slug for one in client.pools() if not one.target)

    def quoted() -> Any:
        try:
            return client.quote(program, ITEMS, pool=pool)
        except Refused as refused:
            if refused.code != "not-measured":
                raise
            return None

    quote = wait_for("the measurement of the host pool", quoted, PATIENCE)
    contract = client.accept(quote)
    if contract.net != quote.net:
        raise RuntimeError(f"The quote says {quote.net}, its contract {contract.net}.")
    return contract


def _feeds(program: Program) -> dict[str, np.ndarray[Any, Any]]:
    random = np.random.default_rng(7)
    return {one["name"]: random.standard_normal((ITEMS, *one["shape"])).astype(one["dtype"]) for one in program.inputs}


def _equals_runtime(folder: Path, feeds: dict[str, np.ndarray[Any, Any]], outputs: dict[str, Any]) -> bool:
    """Whether ONNX Runtime answers the same, to the bit, in a process of its own."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        np.savez(Path(name) / "in.npz", **feeds)  # type: ignore[arg-type]
        command = [sys.executable, "-m", "benchmarks.large_site", str(folder / FILES[0]), name]
        subprocess.run(command, cwd=ROOT, check=True)
        with np.load(Path(name) / "out.npz") as expected:
            return all(np.array_equal(expected[key], outputs[key]) for key in expected.files)


def runtime(model: Path, folder: Path) -> None:
    """Run `in.npz` of a folder item by item, and write `out.npz`."""
    from apps.dispatch.runners.runtime import session_open

    session = session_open(model)
    names = [one.name for one in session.get_outputs()]
    with np.load(folder / "in.npz") as feeds:
        items = [session.run(names, {key: feeds[key][n] for key in feeds.files}) for n in range(ITEMS)]
    stacked = {name: np.stack(rows) for name, rows in zip(names, zip(*items, strict=True), strict=True)}
    np.savez(folder / "out.npz", **stacked)  # type: ignore[arg-type]


def show(found: Walk, size: int) -> None:
    """Print the table of memory, and what the program is."""
    print(f"{'process':36} {'peak MB':>9} {'own MB':>9} {'own / model':>12}")
    for name, whole in sorted(found.watch.whole.items(), key=lambda one: -one[1]):
        own = found.watch.own[name]
        print(f"{name:36} {whole / 1e6:9,.0f} {own / 1e6:9,.0f} {own / size:12.2f}")
    facts = {key: str(value) for key, value in found.facts.items()}
    print(json.dumps({"at": datetime.now(UTC).isoformat(timespec="seconds"), "model": size, **facts}))
    print("the job equals ONNX Runtime" if found.is_equal else "WRONG: the job differs from ONNX Runtime")


if __name__ == "__main__":
    runtime(Path(sys.argv[1]), Path(sys.argv[2]))
