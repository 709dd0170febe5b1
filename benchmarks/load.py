"""One large customer, every page and list alone, then fifty sessions at once: `python -m benchmarks.load [OPTION ...]`.

Fills a database of its own with contracts, jobs and usage rows of one organisation. Then it asks for every page and every
list of the API, by the tables that say who may open which address, and for each prints the server's time and the number of
queries beside the number with a hundredth of the rows. Queries grow with the rows where one of them is made more often than
with few rows; a query about rows of which there were none before is made once more. Last, sessions send a fixed mix of
requests to the product's web server, on two cores with the client. Exit status 1 when a page is too slow, when queries grow
with the rows, when the mix is too slow, or when the reconciliation of what was filled finds a difference.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.arguments import parser, whole
from benchmarks.filling import Volume
from benchmarks.private import house

if TYPE_CHECKING:
    from benchmarks.filling import Filling
    from benchmarks.pages import Measured

PAGE_MS = 150.0  # of server time, each page and list alone
MIX_MS = 500.0  # 95 % of the requests of the mix, client included
CORES = 2
Few = dict[str, tuple[int, int]]
SMALL = 100  # queries are compared with those of this part of the contracts


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    cores = sorted(os.sched_getaffinity(0))[:CORES]
    os.sched_setaffinity(0, cores)  # everything that is started from here inherits it
    with house(options.keep):
        volume = Volume(options.contracts, options.jobs, options.usages)
        filled = _filled(volume, options.keep)
        _by_the_clock()
        wrong: list[str] = []
        if "reconcile" not in options.skip:
            wrong += _reconciled()
        if "pages" not in options.skip:
            wrong += _pages(filled, options.only)
        if "accept" not in options.skip:
            _acceptances()
        if "mix" not in options.skip:
            wrong += _mix(options.sessions, options.seconds)
    for sentence in wrong:
        print("  WRONG:", sentence)
    print(f"{len(wrong)} lines missed" if wrong else "every line held")
    return 1 if wrong else 0


def _options(arguments: list[str]) -> Any:
    command = parser("load", __doc__ or "")
    command.add_argument("--contracts", type=whole, default=500, help="default: 500")
    command.add_argument("--jobs", type=whole, default=5_000, help="default: 5000")
    command.add_argument("--usages", type=whole, default=100_000, help="usage rows; default: 100000")
    command.add_argument("--sessions", type=whole, default=50, help="default: 50, each with a request every 5 seconds")
    command.add_argument("--seconds", type=whole, default=60, help="of the mix; default: 60")
    command.add_argument("--keep", type=Path, metavar="FOLDER", help="fill it once, measure what is there again")
    command.add_argument(
        "--only", default="", metavar="TEXT", help="pages whose address has this in it, with their queries"
    )
    parts = ("reconcile", "pages", "accept", "mix")
    command.add_argument("--skip", nargs="*", default=(), choices=parts, help=f"of {', '.join(parts)}")
    options = command.parse_args(arguments)
    if not options.contracts or options.jobs < options.contracts or options.usages < options.jobs:
        command.error("at least one contract, a job for each of them, and a usage row for each job")
    return options


def _filled(volume: Volume, kept: Path | None) -> Few:
    """Fill the database; returns the queries that each address took with few rows, and how often it made the most frequent
    of them. What was kept is used again."""
    from django.utils import timezone

    from benchmarks import filling, pages

    note = kept / "filled.json" if kept else None
    if note and note.exists():
        told = json.loads(note.read_text())
        if told["volume"] == asdict(volume):
            return {name: (queries, repeated) for name, (queries, repeated) in told["queries"].items()}
        raise SystemExit(f"{kept} was filled with another volume: {told['volume']}")
    began = time.monotonic()
    made = filling.opened(volume, timezone.now())
    few = max(1, volume.contracts // SMALL)
    _grow(made, few)
    filling.spend_caps(made)
    filling.reconciliations(made)
    queries = {one.name: (one.queries, one.repeated) for one in pages.measure(times=0)}
    _grow(made, volume.contracts)
    invoices = filling.invoice(made)
    _analyse()
    print(f"filled in {time.monotonic() - began:.0f} s; {invoices} invoices")
    if note:
        note.write_text(json.dumps({"volume": asdict(volume), "queries": queries}))
    return queries


def _grow(made: Filling, contracts: int) -> None:
    step = max(1, contracts // 10)
    for some in range(step, contracts + step, step):
        made.grow(min(some, contracts))
        print(f"  {len(made.contracts)} contracts, {made.jobs} jobs", flush=True)


def _analyse() -> None:
    """What autovacuum does in time, at once."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


def _by_the_clock() -> None:
    """What the scheduler does in time: the check of each history that grew, and the draft of much usage."""
    from django.utils import timezone

    from apps.invoicing.ledger_checks import ledger_checks_make_due
    from apps.invoicing.stored_drafts import drafts_make_due

    for name, due in (("checks of histories", ledger_checks_make_due), ("drafts", drafts_make_due)):
        began = time.monotonic()
        made = due(now=timezone.now(), clock=timezone.now)
        print(f"{made} {name} by the clock in {time.monotonic() - began:.1f} s", flush=True)


def _reconciled() -> list[str]:
    from apps.accounts.models import Organisation
    from apps.reports.reconciling import organisation_compare

    began = time.monotonic()
    found = organisation_compare(Organisation.objects.get(slug="acme-vision"))
    rows = ", ".join(f"{stage.name} {stage.rows:,}" for stage in found.stages)
    print(f"reconciliation in {time.monotonic() - began:.1f} s: {rows}; {len(found.differences)} differences")
    return found.differences[:10]


def _pages(few: Few, only: str) -> list[str]:
    from benchmarks import pages

    found = pages.measure(times=3, only=only, explain=bool(only))
    print(f"{'ms':>7} {'queries':>8} {'with few rows':>14}  address")
    for one in sorted(found, key=lambda one: -one.milliseconds):
        kind = " (file)" if one.is_file else ""
        print(f"{one.milliseconds:7.1f} {one.queries:8} {few.get(one.name, '-')[0]:>14}  {one.name}{kind}")
    return [sentence for one in found for sentence in _missed(one, few)]


def _missed(one: Measured, few: Few) -> Iterator[str]:
    if one.milliseconds > PAGE_MS and not one.is_file:
        yield f"{one.name}: {one.milliseconds:.0f} ms, above {PAGE_MS:.0f}"
    queries, repeated = few.get(one.name, (one.queries, one.repeated))
    if one.queries > queries and one.repeated > repeated and not one.is_file:
        yield f"{one.name}: {one.queries} queries, {queries} with few rows; one of them {one.repeated} times, {repeated} then"
    if one.status >= 400:
        yield f"{one.name}: answers {one.status}"


def _acceptances() -> None:
    from benchmarks import pages

    for name, milliseconds in pages.acceptances(40).items():
        print(f"{name}: {milliseconds:.0f} ms")


def _mix(sessions: int, seconds: int) -> list[str]:
    from benchmarks import cpu, mix

    with _web() as (address, pid):
        before = cpu.spent(pid), time.process_time(), cpu.spent(cpu.database())
        found = mix.run(address, sessions=sessions, seconds=seconds)
        after = cpu.spent(pid), time.process_time(), cpu.spent(cpu.database())
    asked = len(found.all) + mix.WARM * len(mix.MIX)
    web, client, database = (1000 * (till - since) / asked for since, till in zip(before, after, strict=True))
    print(f"processor time a request: web {web:.0f} ms, client {client:.0f} ms, database {database:.0f} ms")
    print(f"load average over the last minute: {os.getloadavg()[0]:.1f}")
    print(f"{len(found.all)} requests of {sessions} sessions in {seconds} s")
    print(f"{'p50 ms':>8} {'p95 ms':>8} {'max ms':>8} {'n':>5}  address")
    for name, taken in sorted(found.by_name.items(), key=lambda one: -mix.percentile(one[1], 95)):
        print(
            f"{mix.percentile(taken, 50):8.0f} {mix.percentile(taken, 95):8.0f} {max(taken):8.0f} {len(taken):5}  {name}"
        )
    p95 = mix.percentile(found.all, 95)
    print(
        f"all: p50 {mix.percentile(found.all, 50):.0f} ms, p95 {p95:.0f} ms, p99 {mix.percentile(found.all, 99):.0f} ms"
    )
    wrong = [f"{count} answers of the mix were {status}" for status, count in found.failed.items()]
    return wrong + ([f"the mix: p95 {p95:.0f} ms, above {MIX_MS:.0f}"] if p95 > MIX_MS else [])


@contextmanager
def _web() -> Iterator[tuple[str, int]]:
    """The product's web server as `make run` starts it: its address and its process."""
    import socket
    import subprocess

    from bin.stack import web_command

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"127.0.0.1:{port}"
    server = subprocess.Popen(
        web_command(port, tempfile.gettempdir()), env=os.environ | {"SITE_URL": f"http://{address}"}
    )
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield address, server.pid
    finally:
        server.terminate()
        server.wait(30)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
