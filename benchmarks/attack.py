"""Attacks a running product while an honest user works: `python -m benchmarks.attack [--demo FILE] [--seconds N]`.

Squatting, password spraying, floods of uploads, requests for memory, slow bodies and webhooks that hang, together at 20 steps
a second, each from a loopback address of its own. Meanwhile the demo's owner signs in, opens pages, uploads a small model,
asks for a quote, buys it, runs a job, and is sent webhooks; each of those requests is timed. Printed are the answers that
the attackers got and the honest user's times. Status 1 when a limit did not hold, when something that the honest user did
failed, or when the 95th percentile of the user's requests is 300 ms or more.

Without --demo it starts a product of its own in a temporary folder, measures the memory of its web processes too, and ends
it. With --demo FILE it uses the product of `make run` whose var/demo.json that is; the product then needs
WEBHOOK_PRIVATE_ADDRESSES=1, since the receivers are on this machine.
"""

from __future__ import annotations

import http.server
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np

from benchmarks.arguments import parser, whole
from benchmarks.attackers import KINDS, Attacker, Browser, tiny
from benchmarks.client import ROOT

P95_MS = 300.0
RATE = 20
MEMORY_MIB = 256
START_SECONDS = 240.0
WAIT_SECONDS = 90.0
PAGES = ("/", "/models", "/quotes", "/contracts", "/jobs", "/portal", "/compiles")


class Honest:
    """The demo's owner at work. `times`: milliseconds of each request; `faults`: what failed."""

    def __init__(self, url: str, demo: dict[str, Any]) -> None:
        self.url, self.demo = url, demo
        self.times: list[tuple[str, float]] = []
        self.faults: list[str] = []
        self.done: dict[str, int] = {}
        self.browser = Browser(url, "127.0.0.1")
        token = {"Authorization": f"Bearer {demo['token']}"}
        self.api = httpx.Client(base_url=f"{url}/api/v1", timeout=30, headers=token)
        self.heard = threading.Event()
        self.receiver = _receiver(self.heard)

    def timed(self, name: str, ask: Callable[[], httpx.Response]) -> httpx.Response:
        """One request; its time counts whether it succeeds or not."""
        began = time.perf_counter()
        answer = ask()
        self.times.append((name, (time.perf_counter() - began) * 1000))
        if answer.status_code >= 400:
            raise RuntimeError(f"{name} answered {answer.status_code}: {answer.text[:160]}")
        return answer

    def post(self, name: str, path: str, **more: Any) -> Any:
        """A request to the API that must succeed."""
        return self.timed(name, lambda: self.api.post(path, **more)).json()

    def prepare(self) -> None:
        """A program and a contract that the attack cannot take away, and a webhook."""
        program = self._until("a demo program", self._program)
        self.program = program["id"]
        self.inputs = {one["name"]: (one["dtype"], one["shape"]) for one in program["inputs"]}
        pools = self.api.get("/pools").json()
        self.pool = next(pool["slug"] for pool in pools if pool["target"] == program["target"])
        hook = {"url": f"http://127.0.0.1:{self.receiver.server_address[1]}/", "topics": ["usage"]}
        self.hook = self.api.post("/webhooks", json=hook).raise_for_status().json()["id"]
        self.api.post(f"/webhooks/{self.hook}/test", json={}).raise_for_status()
        if not self.heard.wait(WAIT_SECONDS):
            raise SystemExit("No webhook arrived before the attack began: is WEBHOOK_PRIVATE_ADDRESSES=1 set?")

    def _program(self) -> dict[str, Any] | None:
        for row in self.api.get("/programs").json()["results"]:
            if row["target"] == "lpu" and row["precision"] == "float32" and all(row["dims"].values() or [1]):
                found: dict[str, Any] = self.api.get(f"/programs/{row['id']}").json()
                return found
        return None

    def work(self, number: int) -> None:
        """One round; what fails is noted."""
        rounds = (self._pages, self._sign_in, self._upload, self._buy_and_run, self._webhook)
        for step in rounds:
            try:
                step(number)
                name = step.__name__.strip("_")
                self.done[name] = self.done.get(name, 0) + 1
            except Exception as error:  # noqa: BLE001 - whatever fails for the honest user is the finding
                self.faults.append(f"{step.__name__.strip('_')}: {error}"[:240])

    def _sign_in(self, number: int) -> None:
        self.browser.client.cookies.clear()
        page = self.timed("sign-in page", lambda: self.browser.ask("GET", "/sign-in"))
        mark = page.text.split('name="csrfmiddlewaretoken" value="', 1)[1].split('"', 1)[0]
        email = self.demo["email"]
        data = {"username": email, "login": email, "password": self.demo["password"], "csrfmiddlewaretoken": mark}
        self.timed("sign-in", lambda: self.browser.ask("POST", "/sign-in", data=data))
        if "sessionid" not in self.browser.client.cookies:
            raise RuntimeError("the right password was refused")

    def _pages(self, number: int) -> None:
        if "sessionid" not in self.browser.client.cookies:
            self._sign_in(number)
        for path in PAGES:
            self.timed(path, lambda path=path: self.browser.ask("GET", path))

    def _upload(self, number: int) -> None:
        data = tiny(int(time.time() * 1000) % 2**22)
        upload = self.post("announce", "/uploads", json={"filename": "tiny.onnx", "size": len(data)})
        path = f"/uploads/{upload['id']}"
        self.timed("piece", lambda: self.api.put(f"{path}/chunks/0", content=data))
        self.post("complete", f"{path}/complete", json={})

        def ended() -> dict[str, Any] | None:
            now: dict[str, Any] = self.timed("upload state", lambda: self.api.get(path)).json()
            return now if now["version_id"] or now["problem"] else None

        if self._until("the check of an upload", ended)["problem"]:
            raise RuntimeError("a good model was refused")

    def _buy_and_run(self, number: int) -> None:
        lines = [{"program": self.program, "executions": 2}]
        quote = self.post("quote", "/quotes", json={"lines": lines, "klass": "standard", "pool": self.pool})
        contract = self.post("accept", f"/quotes/{quote['id']}/accept", json={})
        inputs = {n: np.zeros((2, *shape), dtype).tolist() for n, (dtype, shape) in self.inputs.items()}
        body = {"contract": contract["id"], "program": self.program, "inputs": inputs}
        job = self.post("job", "/jobs", json=body)

        def ended() -> dict[str, Any] | None:
            now: dict[str, Any] = self.timed("job state", lambda: self.api.get(f"/jobs/{job['id']}")).json()
            is_over = now["state"] in {"done", "failed", "cancelled"}
            return now if is_over or self._starts_late(now) else None

        now = self._until("a job", ended)
        if self._starts_late(
            now
        ):  # the contract named that time before it was bought: others had bought the earlier one
            self.done["job whose time is later"] = self.done.get("job whose time is later", 0) + 1
        elif now["state"] != "done":
            raise RuntimeError(f"the job {now['state']}")

    @staticmethod
    def _starts_late(job: dict[str, Any]) -> bool:
        starts = job["starts_at"] and datetime.fromisoformat(job["starts_at"])
        return bool(starts) and (starts - datetime.now(UTC)).total_seconds() > WAIT_SECONDS / 2

    def _webhook(self, number: int) -> None:
        self.heard.clear()
        self.post("webhook test", f"/webhooks/{self.hook}/test", json={})
        if not self.heard.wait(WAIT_SECONDS):
            raise RuntimeError(f"no webhook within {WAIT_SECONDS:.0f} s")

    @staticmethod
    def _until(what: str, found: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + WAIT_SECONDS
        while not (answer := found()):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what}: nothing within {WAIT_SECONDS:.0f} s")
            time.sleep(0.5)
        return answer

    def close(self) -> None:
        """Leave nothing open."""
        with suppress(httpx.HTTPError, AttributeError):
            self.api.delete(f"/webhooks/{self.hook}")
        self.receiver.shutdown()
        self.receiver.server_close()


def _receiver(heard: threading.Event) -> http.server.ThreadingHTTPServer:
    class Answering(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(204)
            self.end_headers()
            heard.set()

        def log_message(self, *words: object) -> None:
            """Silence."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def attack(attackers: list[Attacker], stop: threading.Event, *, seconds: int) -> int:
    """Steps in turns at the rate, until it is over; returns how many were made. Each attacker has a bounded number of
    threads, so that one who is kept waiting does not hold up the others."""
    pools = {one.name: ThreadPoolExecutor(4, thread_name_prefix=one.name) for one in attackers}
    made, began = 0, time.monotonic()
    while made < RATE * seconds and not stop.is_set():
        one = attackers[made % len(attackers)]
        pools[one.name].submit(_quiet, one.step)
        made += 1
        stop.wait(max(0.0, began + made / RATE - time.monotonic()))
    for pool in pools.values():
        pool.shutdown(wait=False, cancel_futures=True)
    return made


def _quiet(step: Callable[[], None]) -> None:
    with suppress(httpx.HTTPError, OSError, KeyError, ValueError):
        step()


def measure(demo: dict[str, Any], kinds: list[type[Attacker]], *, seconds: int) -> list[str]:
    """Attack and work at the same time; prints what came of it and returns what was wrong."""
    url = demo["url"].replace("localhost", "127.0.0.1")
    if urlsplit(url).hostname != "127.0.0.1":
        raise SystemExit(f"Only a product on this machine is attacked; {url} is elsewhere.")
    honest = Honest(url, demo)
    attackers = [kind(url, f"127.0.0.{number + 2}", demo) for number, kind in enumerate(kinds)]
    stop, steps = threading.Event(), 0
    try:
        honest.prepare()
        for one in attackers:
            one.prepare()
        quiet = _rounds(honest, until=time.monotonic() + min(20, seconds))
        calm = len(honest.times)
        with ThreadPoolExecutor(1) as runner:
            running = runner.submit(attack, attackers, stop, seconds=seconds)
            _rounds(honest, until=time.monotonic() + seconds, first=quiet)
            stop.set()
            steps = running.result()
    finally:
        stop.set()
        for closing in (*attackers, honest):
            closing.close()
    return _tell(honest, attackers, calm=calm, steps=steps)


def _rounds(honest: Honest, *, until: float, first: int = 0) -> int:
    number = first
    while time.monotonic() < until:
        honest.work(number)
        number += 1
        time.sleep(1.0)
    return number


def _tell(honest: Honest, attackers: list[Attacker], *, calm: int, steps: int) -> list[str]:
    before, during = honest.times[:calm], honest.times[calm:]
    print(f"{steps} steps of attack; answers by status (0: none came, 1: slow connections begun):")
    wrong = list(honest.faults)
    for one in attackers:
        counts = ", ".join(f"{status}: {count}" for status, count in sorted(one.browser.statuses.items()))
        print(f"  {one.name:18} {counts}")
        wrong += one.verdict()
    print(
        f"honest user: {', '.join(f'{name} {count}' for name, count in honest.done.items())}, {len(honest.faults)} failed"
    )
    for title, times in (("before", before), ("during", during)):
        if len(times) > 1:
            values = [value for _, value in times]
            p50, p95 = statistics.median(values), statistics.quantiles(values, n=20)[-1]
            print(f"  {title}: {len(values)} requests, p50 {p50:.0f} ms, p95 {p95:.0f} ms, most {max(values):.0f} ms")
    each: dict[str, list[float]] = defaultdict(list)
    for name, value in during:
        each[name].append(value)
    slowest = sorted(each.items(), key=lambda row: -max(row[1]))
    print(
        "  median and most of each: "
        + ", ".join(f"{name} {statistics.median(values):.0f} and {max(values):.0f} ms" for name, values in slowest)
    )
    if len(during) < 20:
        return [*wrong, f"only {len(during)} requests were timed"]
    p95 = statistics.quantiles([value for _, value in during], n=20)[-1]
    return [*wrong, *([f"p95 is {p95:.0f} ms, {P95_MS:.0f} or more"] if p95 >= P95_MS else [])]


@contextmanager
def own_product() -> Iterator[tuple[dict[str, Any], Path]]:
    """`make run` in a temporary folder, ended with the block."""
    with tempfile.TemporaryDirectory(prefix="takt-attack-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)  # PostgreSQL may run as another account
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
        env = kept | {"TAKT_VAR": name, "PORT": port, "WEBHOOK_PRIVATE_ADDRESSES": "1", "DEMO_MONTH": "0"}
        with (folder / "said").open("wb") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", "bin.commands", "run"],
                cwd=ROOT,
                env=env,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        try:
            deadline = time.monotonic() + START_SECONDS
            while "Takt is ready" not in (folder / "said").read_text():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"The product did not start: {(folder / 'said').read_text()[-400:]}")
                time.sleep(0.5)
            yield json.loads((folder / "demo.json").read_text()), folder
        finally:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=60)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def web_memory(folder: Path) -> dict[int, int]:
    """The peak of resident memory in KiB of each web process of a product (Linux)."""
    mark, found = f"TAKT_VAR={folder}".encode(), {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            is_web = entry.name.isdigit() and b"gunicorn" in (entry / "cmdline").read_bytes()
            if is_web and mark in (entry / "environ").read_bytes().split(b"\0"):
                status = (entry / "status").read_text()
                found[int(entry.name)] = int(status.split("VmHWM:", 1)[1].split()[0])
    return found


def memory_grown(before: dict[int, int], after: dict[int, int]) -> list[str]:
    """Sentences for web processes that took more than they may; prints the most."""
    grown = max((after[pid] - before[pid] for pid in before.keys() & after.keys()), default=0) // 1024
    print(f"memory: a web process grew by {grown} MiB at most")
    died = [f"{len(before.keys() - after.keys())} web processes died"] if before.keys() - after.keys() else []
    return died + ([f"a web process grew by {grown} MiB, more than {MEMORY_MIB}"] if grown > MEMORY_MIB else [])


def main(arguments: list[str]) -> int:
    """Status 0 when every limit held."""
    command = parser("attack", __doc__)
    command.add_argument("--demo", type=Path, help="the demo.json of a running product; without it one is started")
    command.add_argument("--only", nargs="+", choices=[kind.name for kind in KINDS], help="these attacks alone")
    command.add_argument("--seconds", type=whole, default=120, help="how long (default: 120)")
    options = command.parse_args(arguments)
    seconds = max(10, min(options.seconds, 600))
    kinds = [kind for kind in KINDS if kind.name in (options.only or [kind.name])]
    if options.demo:
        try:
            demo = json.loads(options.demo.read_text())
        except (OSError, ValueError) as error:
            raise SystemExit(f"{options.demo} cannot be read: {error}") from error
        wrong = measure(demo, kinds, seconds=seconds)
    else:
        with own_product() as (demo, folder):
            before = web_memory(folder)
            wrong = measure(demo, kinds, seconds=seconds)
            wrong += memory_grown(before, web_memory(folder))
    print("\n".join(f"WRONG: {one}" for one in wrong) if wrong else "every limit held")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
