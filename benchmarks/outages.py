"""Faults of whole parts against a running product: what `benchmarks.faults --stack` does, one row of its table a fault."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from benchmarks.outage_customer import Activities, Customer, Done, Untrue
from benchmarks.outage_stack import AWAY_SECONDS, Product, product, wait_until

RECOVERY_MAX = 30.0  # seconds from the end of the fault until each activity has succeeded again
BEFORE_SECONDS = 2.0
AFTER_SECONDS = 150.0  # how long the work is given before the row is called lost
PORT = 8101
FAULTS = ("Valkey killed", "PostgreSQL killed", "web killed", "storage away", "disk full")
ACTIVITIES = ("uploading", "compiling", "accepting", "running", "invoicing")
MADE = {
    "version": "/api/v1/versions",
    "compile": "/api/v1/compiles",
    "contract": "/api/v1/contracts",
    "job": "/api/v1/jobs",
    "invoice": "/api/v1/invoices",
}


@dataclass
class Row:
    """What a fault did: seconds until each activity succeeded again, and every sentence that should not have been said."""

    fault: str
    recovery: dict[str, float] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    skipped: str = ""


def run(faults: list[str]) -> list[str]:
    """Every fault in turn against one product; prints the table and answers what was wrong."""
    wrong: list[str] = []
    with product(PORT) as stack:
        demo = json.loads((stack.folder / "demo.json").read_text())
        customer = Customer(stack.url, demo["token"])
        for kind, path in MADE.items():  # what the demo has made
            customer.kept[kind] = [str(one["id"]) for one in customer.rows(path)]
        works = Activities(customer)
        works.prepare()
        print(
            f"{'':18}" + "".join(f"{name:>11}" for name in ACTIVITIES) + "   seconds until it works again", flush=True
        )
        for fault in faults:
            row = struck(stack, works, fault)
            tell(row)
            wrong += row.wrong
        wrong += settled(customer, Customer(stack.url, demo["admin_token"]))
        made = ", ".join(f"{len(ids)} {kind}s" for kind, ids in sorted(customer.kept.items()))
        print(f"accepted and there once: {made}; refused or unanswered and repeated: {customer.refused}")
    for sentence in wrong:
        print(f"WRONG: {sentence}")
    return wrong


def tell(row: Row) -> None:
    """One line."""
    if row.skipped:
        print(f"{row.fault:18}skipped: {row.skipped}", flush=True)
        return
    figures = "".join(
        f"{row.recovery[name]:11.1f}" if name in row.recovery else f"{'never':>11}" for name in ACTIVITIES
    )
    print(f"{row.fault:18}{figures}   {'nothing lost, doubled or untrue' if not row.wrong else 'WRONG'}", flush=True)


@contextlib.contextmanager
def outage(stack: Product, fault: str) -> Iterator[None]:
    """The fault strikes; at the end of the block what a person would do is done: a mount or some room is back. What was
    killed nobody starts."""
    what, _, how = fault.rpartition(" ")
    if how == "killed":
        stack.kill(what)
        yield
        return
    with stack.storage_away() if how == "away" else stack.disk_full():
        yield
        time.sleep(AWAY_SECONDS)


def struck(stack: Product, works: Activities, fault: str) -> Row:
    """All five activities go on, the fault strikes, and they go on until each has succeeded again."""
    row = Row(fault)
    if fault == "disk full" and not stack.is_disk:
        row.skipped = "this account may not mount a disk of its own that could be filled"
        return row
    customer, stop = works.customer, threading.Event()
    done: dict[str, list[Done]] = {name: [] for name in ACTIVITIES}
    threads = [
        threading.Thread(target=partial(repeat, work, customer, done[name], stop, row), name=name, daemon=True)
        for name, work in works.all().items()
    ]
    for thread in threads:
        thread.start()
    time.sleep(BEFORE_SECONDS)
    with outage(stack, fault):
        if fault == "disk full":
            said = stack.ready_says()
            row.wrong += [] if '"disk": "full' in said else [f"/readyz does not know of the full disk: {said[:200]}"]
    over = time.monotonic()

    def again(name: str) -> float | None:
        return next((one.ended - over for one in done[name] if one.began > over), None)

    with contextlib.suppress(TimeoutError):
        wait_until(lambda: all(again(name) is not None for name in ACTIVITIES), AFTER_SECONDS, lambda: "")
    stop.set()
    for thread in threads:
        thread.join(AFTER_SECONDS)
        row.wrong += [f"{fault}: {thread.name} hangs"] if thread.is_alive() else []
    for name in ACTIVITIES:
        seconds = again(name)
        if seconds is not None:
            row.recovery[name] = seconds
        if seconds is None or seconds > RECOVERY_MAX:
            row.wrong.append(f"{fault}: {name} did not work again within {RECOVERY_MAX:.0f} s")
    row.wrong += [f"{fault}: {sentence}" for sentence in customer.untrue]
    customer.untrue.clear()
    row.wrong += [f"{fault}: {sentence}" for sentence in lost_or_doubled(customer)]
    if not stack.is_ready():
        row.wrong.append(f"{fault}: /readyz afterwards: {stack.ready_says()[:200]}")
    return row


def repeat(work: Callable[[], None], customer: Customer, done: list[Done], stop: threading.Event, row: Row) -> None:
    """One activity, over and over."""
    while not stop.is_set():
        customer.repeated.count, began = 0, time.monotonic()
        try:
            work()
        except Untrue as untrue:
            row.wrong.append(f"{row.fault}: {untrue}")
            time.sleep(1.0)
        else:
            done.append(Done(began, time.monotonic(), customer.repeated.count))


def lost_or_doubled(customer: Customer) -> list[str]:
    """Every id that was accepted is listed once, and nothing is listed that was not accepted."""
    wrong = []
    for kind, path in MADE.items():
        there = [str(one["id"]) for one in customer.rows(path)]
        kept = customer.kept.get(kind, [])
        lost, unknown = set(kept) - set(there), set(there) - set(kept)
        wrong += [f"{len(lost)} accepted {kind}s are lost: {sorted(lost)[:3]}"] if lost else []
        wrong += [f"{len(unknown)} {kind}s were made that nobody was told of: {sorted(unknown)[:3]}"] if unknown else []
        wrong += [f"{kind}s listed twice"] if len(there) != len(set(there)) else []
    return wrong


def settled(customer: Customer, administrator: Customer) -> list[str]:
    """At the end: every job done, the ledger intact, and the reconciliation without a difference."""
    wrong = [
        f"job {job['id']} is {job['state']}: {job.get('problem')}"
        for job in customer.rows("/api/v1/jobs")
        if job["state"] != "done"
    ]
    check = f"/api/v1/ledger/checks/{customer.ask('POST', '/api/v1/ledger/checks', json={}).json()['id']}"
    ledger: dict[str, Any] = {}

    def is_checked() -> bool:
        ledger.update(customer.get(check))
        return bool(ledger["finished_at"])

    wait_until(is_checked, AFTER_SECONDS, lambda: "the check of the ledger does not end")
    wrong += ledger["differences"] + ([] if ledger["intact"] else [ledger["reason"]])
    asked: dict[str, Any] = administrator.made("run", administrator.ask("POST", "/api/v1/reconciliations", json={}))
    path, found = f"/api/v1/reconciliations/{asked['id']}", asked

    def is_over() -> bool:
        found.update(administrator.get(path))
        return bool(found["finished_at"])

    wait_until(is_over, AFTER_SECONDS, lambda: "the reconciliation does not end")
    if found["differences"]:
        wrong.append(f"the reconciliation finds {found['differences']} differences")
    print(
        f"ledger of {ledger['transactions']} transactions intact: {ledger['intact']}; "
        f"reconciliation: {found['differences']} differences"
    )
    return wrong
