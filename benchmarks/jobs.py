"""Real models through a running product, as a customer's program: `python -m benchmarks.jobs [MODEL ...]`.

Each model is uploaded, compiled for every processor that a pool offers, planned, quoted, accepted and run as jobs: on both
devices of a pool that has two, on each other pool, and on the host. Then one invoice over all of it. Checked for each job:
outputs against ONNX Runtime in this process, counters against the program's resources, usage against the quote; at the end
invoice against quotes, the ledger, and the invoice again by `takt verify`, offline. Status 1 when anything differs.

Needs the server of `make run`, whose address and token are in var/demo.json, or in the file that TAKT_DEMO names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arguments import names
from benchmarks.client import DEMO, ROOT, demo_client, wait_for
from benchmarks.real_models import LIMIT, error
from bin.models import fetch
from takt import Client, Refused, Unreachable
from tests.models import light_model, seeded_feeds

ITEMS = 2  # in each job; every contract is used up in full
LEADS = (5, 15, 60)  # seconds until a common window begins, so that two contracts cannot share one device
MODELS: dict[str, list[dict[str, int]]] = {
    "squeezenet": [{}],
    "magika": [{"unk__214": 1}],
    "minilm": [{"batch_size": 1, "sequence_length": length} for length in (16, 64, 128)],
    "cls": [{"x.0": 1, "x.2": 48, "x.3": 192}],
}


@dataclass(frozen=True)
class Sent:
    """A job on its way: its program as the API describes it, the line of the contract, and what was sent."""

    pk: str
    program: dict[str, Any]
    line: dict[str, Any]
    dims: dict[str, int]
    feeds: list[dict[str, np.ndarray]]


@dataclass
class Row:
    """One job and what became of it."""

    model: str
    dims: dict[str, int]
    pool: str
    device: str
    error: float
    counters: str
    cycles: int
    quoted: Decimal
    billed: Decimal

    @property
    def right(self) -> bool:
        """Outputs near, counters equal, usage equal to the quote."""
        return self.error <= LIMIT and self.counters != "DIFFER" and self.quoted == self.billed


class Walk:
    """One model on its way through the product."""

    def __init__(self, client: Client, model: str) -> None:
        self.client, self.model, self.sizes = client, model, MODELS[model]
        self.data = model_file(model)
        self.pools = {pool["slug"]: pool for pool in client.get("/api/v1/pools")}
        self.contracts: list[dict[str, Any]] = []

    def run(self) -> list[Row]:
        """Upload, compile, plan; then a contract and its jobs on every pool."""
        version = self.upload()
        self.compile(version)
        plans = [self.plan(version, dims) for dims in self.sizes]
        rows = []
        for slug, pool in sorted(self.pools.items()):
            rows += self.on_pool(slug, int(pool["devices"]), plans)
        return rows

    def upload(self) -> str:
        """The version's id; a file that is there already is not sent again."""
        return self.client.upload(self.data, name=self.model, filename=f"{self.model}.onnx").id

    def compile(self, version: str) -> None:
        """For every processor on offer; all lengths of an open dimension in one request, as one bundle."""
        lengths = {name: sorted({dims[name] for dims in self.sizes}) for name in self.sizes[0]}
        asked = {name: values if len(values) > 1 else values[0] for name, values in lengths.items()}
        targets = sorted({pool["target"] for pool in self.pools.values() if pool["target"]})
        jobs = [
            self.client.post("/api/v1/compiles", {"version_id": version, "target": target, "dims": asked})
            for target in targets
        ]
        for job in jobs:
            done = wait_for(
                f"{self.model} for {job['target']}", lambda job=job: self._final(f"/api/v1/compiles/{job['id']}")
            )
            if done["state"] != "done":
                raise RuntimeError(f"{self.model} does not compile for {job['target']}: {done['error']}")

    def plan(self, version: str, dims: dict[str, int]) -> dict[str, Any]:
        """The plan for these lengths, once the host pool has been measured too."""

        def complete() -> Any:
            asked = {"version_id": version, "items": ITEMS, "dims": dims}
            plan = self.client.post("/api/v1/plans", asked)
            return plan if all(c["feasible"] for c in plan["candidates"]) else None

        found: dict[str, Any] = wait_for(f"a plan of {self.model} that every pool can do", complete)
        return found

    def on_pool(self, slug: str, devices: int, plans: list[dict[str, Any]]) -> list[Row]:
        """As many contracts as the pool has devices, all for the same moment, until each device has had a job."""
        for lead in LEADS:
            start = datetime.now(UTC) + timedelta(seconds=lead)
            contracts = [self.contract(slug, plans, start if devices > 1 else None) for _ in range(devices)]
            self.contracts += contracts
            jobs = [
                self.submit(contract, line, dims, seed)
                for seed, contract in enumerate(contracts)
                for line, dims in zip(contract["lines"], self.sizes, strict=True)
            ]
            rows = [self.judge(slug, job) for job in jobs]
            if len({row.device for row in rows}) == devices or not all(row.right for row in rows):
                return rows
        raise RuntimeError(f"{self.model}: contracts for the same moment never came to lie on all devices of {slug}")

    def contract(self, slug: str, plans: list[dict[str, Any]], start: datetime | None) -> dict[str, Any]:
        """Quote the plans' candidates on a pool, and accept. A plan's own choice is quoted as the plan."""
        chosen = [next(c for c in plan["candidates"] if c["pool"] == slug and c["kind"] == "single") for plan in plans]
        asked: dict[str, Any] = {"pool": slug, "window": {"start": start.isoformat()} if start else {}}
        if len(plans) == 1 and plans[0]["chosen"]["pool"] == slug:
            asked |= {"plan": plans[0]["id"]}
        else:
            lines = [line for candidate in chosen for line in candidate["lines"]]
            asked |= {"lines": [{"program": line["program"], "executions": line["executions"]} for line in lines]}
        quote = self.client.post("/api/v1/quotes", asked)
        contract: dict[str, Any] = self.client.post(f"/api/v1/quotes/{quote['id']}/accept", {})
        if contract["net"] != quote["net"]:
            raise RuntimeError(f"quote {quote['id']} says {quote['net']}, its contract {contract['net']}")
        return contract

    def submit(self, contract: dict[str, Any], line: dict[str, Any], dims: dict[str, int], seed: int) -> Sent:
        """A job for all that the contract holds of one program."""
        program = self.client.get(f"/api/v1/programs/{line['program']}")
        if any(program["dims"].get(name) != size for name, size in dims.items()):
            raise RuntimeError(f"the contract's line is for {program['dims']}, wanted were {dims}")
        kinds = {one["name"]: (one["dtype"], tuple(one["shape"])) for one in program["inputs"]}
        feeds = [seeded_feeds(kinds, ITEMS * seed + number) for number in range(line["executions"])]
        job = self.client.submit(contract["id"], {name: np.stack([feed[name] for feed in feeds]) for name in kinds})
        return Sent(job.id, program, line, dims, feeds)

    def judge(self, slug: str, sent: Sent) -> Row:
        """Wait for the job's end, then compare everything that it says."""
        path, program = f"/api/v1/jobs/{sent.pk}", sent.program
        job = wait_for(f"job {sent.pk} of {self.model} on {slug}", lambda: self._final(path))
        if job["state"] != "done":
            raise RuntimeError(f"{self.model} {sent.dims} on {slug}: {job['problem'] or job['state']}")
        outputs = self.client.outputs(sent.pk)
        blocks = self.client.get(f"{path}/blocks")
        is_proven = job["latency"] == "proven"
        differs = is_proven and any(block["counters"] != program["resources"] for block in blocks)
        return Row(
            model=self.model,
            dims=sent.dims,
            pool=slug,
            device="+".join(sorted({block["device"] for block in blocks})),
            error=worst_error(self.data, sent.feeds, outputs),
            counters="DIFFER" if differs else "equal" if is_proven else "measured",
            cycles=program["latency_cycles"] if is_proven else 0,
            quoted=Decimal(sent.line["quoted"]),
            billed=Decimal(job["cost"]),
        )

    def _final(self, path: str) -> Any:
        found = self.client.get(path)
        return found if found["state"] in {"done", "failed", "cancelled"} else None


def model_file(model: str) -> bytes:
    """The file that the customer uploads."""
    if model == "squeezenet":
        return light_model(model).SerializeToString(deterministic=True)
    return fetch(model).read_bytes()


def worst_error(data: bytes, feeds: list[dict[str, np.ndarray]], outputs: Any) -> float:
    """The largest relative error of any output of any item against ONNX Runtime here; whole numbers must be equal."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    errors = [
        error(outputs[name][item], expected)
        for item, feed in enumerate(feeds)
        for name, expected in zip(names, session.run(names, feed), strict=True)
    ]
    return max(errors)


def invoice_differences(client: Client, contracts: list[dict[str, Any]], models: list[str]) -> list[str]:
    """Issue the invoice over everything; sentences for what is not as quoted."""
    invoice = client.post("/api/v1/invoices", {})
    quoted = {contract["id"]: Decimal(contract["net"]) for contract in contracts}
    billed = dict.fromkeys(quoted, Decimal(0))
    for line in invoice["document"]["lines"]:
        billed[line["contract"]] = billed.get(line["contract"], Decimal(0)) + Decimal(line["amount"])
    differing = [pk for pk, amount in billed.items() if quoted.get(pk) != amount]
    wrong = [f"contract {pk}: quoted {quoted.get(pk)}, billed {billed[pk]}" for pk in differing]
    total = sum(quoted.values(), Decimal(0))
    if total != Decimal(invoice["net"]):
        wrong.append(f"invoice {invoice['number']}: net {invoice['net']}, quoted {total}")
    asked = client.post("/api/v1/ledger/checks", {})
    path = f"/api/v1/ledger/checks/{asked['id']}"
    ledger = wait_for("the check of the ledger", lambda: (found := client.get(path))["finished_at"] and found)
    wrong += ledger["differences"] + ([] if ledger["intact"] else [ledger["reason"]])
    print(
        f"\n{len(contracts)} contracts quoted {total}, invoice {invoice['number']} net {invoice['net']}, "
        f"payable {invoice['payable']} {invoice['currency']}; ledger of {ledger['transactions']} transactions "
        f"{'intact' if ledger['intact'] else 'BROKEN'}"
    )
    return wrong + verify_again(client, invoice, models)


def verify_again(client: Client, invoice: dict[str, Any], models: list[str]) -> list[str]:
    """`takt verify` of the invoice with the models' files and the price book: compiled and rated again, offline."""
    with tempfile.TemporaryDirectory() as folder:
        files = {f"{model}.onnx": model_file(model) for model in models}
        files["invoice.json"] = client.request("GET", f"/api/v1/invoices/{invoice['id']}/file?kind=json").content
        for version in sorted({line["rating"]["book_version"] for line in invoice["document"]["lines"]}):
            files[f"book-{version}.json"] = client.request("GET", f"/api/v1/price-books/{version}").content
        for name, data in files.items():
            Path(folder, name).write_bytes(data)
        others = sorted(str(Path(folder, name)) for name in files if name != "invoice.json")
        command = [sys.executable, "-m", "apps.cli.main", "verify", str(Path(folder, "invoice.json")), *others]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    said = (done.stdout + done.stderr).strip().splitlines() or ["takt verify said nothing"]
    print(f"takt verify: {said[-1]}")
    return said if done.returncode else []


def show(row: Row) -> None:
    """One line of the table."""
    sizes = "x".join(str(size) for size in row.dims.values()) or "-"
    print(
        f"{row.model:11} {sizes:>9} {row.pool:9} {row.device:11} {row.error:9.2e} {row.counters:9} {row.cycles or '-':>9} "
        f"{row.quoted:>24f} {row.billed:>24f}{'' if row.right else '  WRONG'}",
        flush=True,
    )


def main(wanted: list[str]) -> int:
    """Walk every model; answers the exit status."""
    models = names("jobs", __doc__, wanted, MODELS, "model") or ["squeezenet", "magika", "minilm"]
    client = demo_client(Path(os.environ.get("TAKT_DEMO") or DEMO))
    if client.get("/api/v1/invoices/draft")["document"]:
        client.post("/api/v1/invoices", {})  # what was used before is not ours to compare
    print(
        f"{'model':11} {'lengths':>9} {'pool':9} {'device':11} {'error':>9} {'counters':9} {'cycles':>9} "
        f"{'quoted':>24} {'billed':>24}"
    )
    wrong: list[str] = []
    contracts: list[dict[str, Any]] = []
    for model in models:
        walk = Walk(client, model)
        for row in walk.run():
            show(row)
            if not row.right:
                wrong.append(f"{row.model} on {row.pool}: {json.dumps(vars(row), default=str)}")
        contracts += walk.contracts
    wrong += invoice_differences(client, contracts, models)
    for sentence in wrong:
        print(sentence)
    print("jobs equal ONNX Runtime, counters equal reports, invoice equals quotes" if not wrong else "WRONG")
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Refused, Unreachable, RuntimeError, TimeoutError) as fault:
        sys.exit(f"jobs: {fault}")
