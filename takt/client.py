"""The typed client: one method for each step from a model file to an invoice."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

from takt.errors import Failed, Refused
from takt.records import CompileJob, Contract, Ending, Invoice, Job, Me, Pool, Program, Quote, SpendCap, Version
from takt.transport import Transport

Array = np.ndarray[Any, Any]
A = TypeVar("A")
FINAL = frozenset({"done", "failed", "cancelled"})
DEFAULT_URL = "http://127.0.0.1:8000"


class Client:
    """A customer's access to one Takt server.

    `url` and `token` come from TAKT_URL and TAKT_TOKEN where they are left out. Every method raises `Refused` for what the
    server refuses and `Unreachable` where no answer comes within `retry_seconds`. A request that creates something carries
    an idempotency key, so that it takes effect at most once however often it is sent.
    """

    def __init__(
        self, url: str | None = None, token: str | None = None, *, timeout: float = 60.0, retry_seconds: float = 30.0
    ) -> None:
        secret = token or os.environ.get("TAKT_TOKEN", "")
        if not secret:
            raise ValueError("Give a token, or set TAKT_TOKEN; tokens are made under Settings, API tokens.")
        address = url or os.environ.get("TAKT_URL", DEFAULT_URL)
        self._transport = Transport(address, secret, timeout=timeout, retry_seconds=retry_seconds)
        self.url, self.request = self._transport.url, self._transport.request

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._transport.close()

    # Any operation

    def get(self, path: str, **params: Any) -> Any:
        """Return the JSON answer of an address below /api/v1."""
        return self.request("GET", path, params=params or None).json()

    def post(self, path: str, document: Mapping[str, Any] | None = None) -> Any:
        """Create something; a retry creates nothing twice."""
        return self.request("POST", path, json=dict(document or {})).json()

    def rows(self, path: str, **params: Any) -> Iterator[dict[str, Any]]:
        """Yield every row of a list, page by page."""
        page = self.get(path, **params)
        while True:
            yield from page["results"]
            if not page["next"]:
                return
            page = self.get(page["next"])

    # Models and programs

    def me(self) -> Me:
        """Return the person, role and organisation of the token."""
        return Me.read(self.get("/me"))

    def pools(self) -> list[Pool]:
        """Return the pools on which you can buy time."""
        return [Pool.read(one) for one in self.get("/pools")]

    def targets(self) -> list[str]:
        """Return the processors for which models can be compiled."""
        return [one["name"] for one in self.get("/targets")]

    def versions(self) -> Iterator[Version]:
        """Yield every model version, newest first."""
        return (Version.read(one) for one in self.rows("/versions"))

    def version(self, pk: str) -> Version:
        """One model version."""
        return Version.read(self.get(f"/versions/{pk}"))

    def upload(
        self,
        model: str | os.PathLike[str] | bytes,
        *,
        name: str = "",
        project: str = "Default",
        filename: str = "",
        on_progress: Callable[[int, int], object] | None = None,
        timeout: float = 600.0,
    ) -> Version:
        """Upload an ONNX file (a path or its bytes), or a .zip or .tar of one with its side files, in pieces and wait until it is
        checked. The files are read piece by piece.

        The version that the organisation has already is returned where the bytes are the same. `on_progress` gets bytes
        sent and bytes in all. Raises Refused with `code` model-refused and every problem of the file in `errors`.
        """
        title = filename or ("model.onnx" if isinstance(model, bytes) else Path(model).name)
        with io.BytesIO(model) if isinstance(model, bytes) else Path(model).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.seek(0, os.SEEK_END)
            announced = {"filename": title, "size": size, "sha256": digest, "name": name, "project": project}
            try:
                upload = self.post("/uploads", announced)
            except Refused as refused:
                if refused.code != "already-here":
                    raise
                return self.version(refused.errors[0]["version_id"])
            file.seek(0)
            for offset in range(0, size, int(upload["chunk_bytes_max"])):
                piece = file.read(int(upload["chunk_bytes_max"]))
                binary = {"Content-Type": "application/octet-stream"}
                self.request("PUT", f"/uploads/{upload['id']}/chunks/{offset}", content=piece, headers=binary)
                if on_progress:
                    on_progress(offset + len(piece), size)
        return self._checked(
            self.request("POST", f"/uploads/{upload['id']}/complete", json={"sha256": digest}), timeout
        )

    def _checked(self, response: Any, timeout: float) -> Version:
        """Return the version of an upload, once its check has ended."""
        document = response.json()
        if response.status_code != 202:
            return Version.read(document)
        path = f"/uploads/{document['id']}"
        ended = self._until(lambda: self._upload_ended(path), timeout, "the upload is still being checked")
        return self.version(ended["version_id"])

    def _upload_ended(self, path: str) -> dict[str, Any] | None:
        found: dict[str, Any] = self.get(path)
        if found.get("problem"):
            raise Refused(int(found["problem"].get("status", 422)), found["problem"])
        return found if found.get("version_id") else None

    def compile(
        self,
        version: Version | str,
        *,
        target: str,
        precision: str = "float32",
        dims: Mapping[str, int | Sequence[int]] | None = None,
        constants: Mapping[str, Any] | None = None,
        states: Mapping[str, str] | None = None,
        bounds: Mapping[str, int] | None = None,
        context: int | None = None,
        caches: Mapping[str, str] | None = None,
        examples: Mapping[str, Array] | None = None,
        timeout: float = 900.0,
    ) -> list[Program]:
        """Compile a version and wait: one program, or one for each size where a dimension has several.

        `dims` gives the sizes of variable dimensions, `examples` typical inputs (one array for each input, the items along
        the leading axis) from which float16 and int8 take their ranges. `states` are outputs by the input that they become,
        `bounds` the most trips by loop. With `context`, caches that grow (those in `caches`, or all) stay on the processor,
        with at most so many tokens. Raises Failed with the reason.
        """
        asked: dict[str, Any] = {
            "version_id": _id(version),
            "target": target,
            "precision": precision,
            "dims": dict(dims or {}),
            "constants": dict(constants or {}),
            "states": dict(states or {}),
            "bounds": dict(bounds or {}),
            "caches": dict(caches or {}),
            "context": context,
        }
        if examples:
            asked["calibration"] = base64.b64encode(_npz(examples)).decode()
        job = CompileJob.read(self.post("/compiles", asked))
        done = self._until(lambda: self._compile_ended(job.id), timeout, f"compiling for {target} has not ended")
        if done.state != "done":
            raise Failed(
                f"Compiling for {target} {done.state}: {(done.error or {}).get('message', 'no reason was given')}"
            )
        return [self.program(pk) for pk in done.program_ids]

    def _compile_ended(self, pk: str) -> CompileJob | None:
        job = CompileJob.read(self.get(f"/compiles/{pk}"))
        return job if job.state in FINAL else None

    def programs(self, version: Version | str | None = None) -> Iterator[Program]:
        """Yield every program, newest first; of one version if it is given."""
        params = {"version_id": _id(version)} if version else {}
        return (Program.read(one) for one in self.rows("/programs", **params))

    def program(self, pk: str) -> Program:
        """One program."""
        return Program.read(self.get(f"/programs/{pk}"))

    def report(self, program: Program | str) -> dict[str, Any]:
        """Return what one inference needs, operation by operation."""
        found: dict[str, Any] = self.get(f"/programs/{_id(program)}/report")
        return found

    def price(self, program: Program | str) -> dict[str, Any]:
        """Return today's price of 1,000 executions, and of tokens for a program that continues a sequence. Raises Refused with
        `code` not-priced if the price book has no price for it.
        """
        found: dict[str, Any] = self.get(f"/programs/{_id(program)}/price")
        return found

    # Quotes and contracts

    def quote(
        self,
        program: Program | str,
        executions: int,
        *,
        klass: str = "standard",
        pool: str = "",
        start: datetime | None = None,
        end: datetime | None = None,
    ) -> Quote:
        """Return a quote for executions of one program; its price is fixed until `valid_until`.

        `start` and `end` limit the window, in any time zone. Without `pool` it is the first one of the program's processor.
        """
        pool = pool or self._pool_of(program)
        window = {name: at.isoformat() for name, at in (("start", start), ("end", end)) if at is not None}
        lines = [{"program": _id(program), "executions": executions}]
        return Quote.read(self.post("/quotes", {"lines": lines, "klass": klass, "pool": pool, "window": window}))

    def _pool_of(self, program: Program | str) -> str:
        target = (program if isinstance(program, Program) else self.program(program)).target
        found = next((pool.slug for pool in self.pools() if pool.target == target), None)
        if found is None:
            raise ValueError(f"No pool has the processor {target}: choose a pool, or compile for another processor.")
        return found

    def quotes(self, **filters: str) -> Iterator[Quote]:
        """Yield every quote, newest first."""
        return (Quote.read(one) for one in self.rows("/quotes", **filters))

    def accept(self, quote: Quote | str) -> Contract:
        """Accept a quote: reserve the capacity and set the money aside.

        Raises Refused with `code` capacity-taken and the alternatives in `errors`, or spend-cap.
        """
        return Contract.read(self.post(f"/quotes/{_id(quote)}/accept"))

    def contracts(self, **filters: str) -> Iterator[Contract]:
        """Yield every contract, newest first."""
        return (Contract.read(one) for one in self.rows("/contracts", **filters))

    def contract(self, pk: str) -> Contract:
        """Return one contract with its use."""
        return Contract.read(self.get(f"/contracts/{pk}"))

    def ending(self, contract: Contract | str) -> Ending:
        """Return the cost of ending a contract now."""
        return Ending.read(self.get(f"/contracts/{_id(contract)}/end"))

    def end(self, contract: Contract | str, *, at_most: Decimal | None = None) -> Contract:
        """End a contract early; its capacity and the rest of its hold are released.

        With `at_most`, raises Refused with `code` ending-costs-more if ending costs more than that.
        """
        document = {} if at_most is None else {"at_most": f"{at_most:f}"}
        return Contract.read(self.post(f"/contracts/{_id(contract)}/end", document))

    # Jobs

    def submit(
        self, contract: Contract | str, inputs: Mapping[str, Array], *, program: Program | str | None = None
    ) -> Job:
        """Start a job: one array for each input, items along the first axis."""
        data = {"contract": _id(contract), **({"program": _id(program)} if program else {})}
        files = {"inputs": ("inputs.npz", _npz(inputs), "application/zip")}
        return Job.read(self.request("POST", "/jobs/npz", data=data, files=files).json())

    def job(self, pk: str) -> Job:
        """One job."""
        return Job.read(self.get(f"/jobs/{pk}"))

    def wait(self, job: Job | str, *, timeout: float = 3600.0) -> Job:
        """Return the job once it is done. Raises Failed if it failed or was cancelled, TimeoutError after `timeout` seconds."""
        pk = _id(job)
        done = self._until(lambda: self._job_ended(pk), timeout, f"job {pk} has not ended")
        if done.state != "done":
            raise Failed(f"Job {pk} {done.state}: {done.problem or 'no reason was given'}")
        return done

    def _job_ended(self, pk: str) -> Job | None:
        job = self.job(pk)
        return job if job.is_final else None

    def outputs(self, job: Job | str) -> dict[str, Array]:
        """Return a finished job's outputs: one array for each, items along the first axis."""
        content = self.request("GET", f"/jobs/{_id(job)}/outputs").content
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}

    def cancel(self, job: Job | str) -> Job:
        """Stop a job; finished work is kept and billed."""
        return Job.read(self.post(f"/jobs/{_id(job)}/cancel"))

    # Money

    def invoices(self) -> Iterator[Invoice]:
        """Yield every invoice, newest first."""
        return (Invoice.read(one) for one in self.rows("/invoices"))

    def draft(self) -> dict[str, Any] | None:
        """Return a preview of the next invoice, or None if there is nothing to invoice."""
        found: dict[str, Any] | None = self.get("/invoices/draft")["document"]
        return found

    def spend_caps(self) -> list[SpendCap]:
        """Return every spend cap with its used and held amounts of this month."""
        return [SpendCap.read(one) for one in self.get("/spend-caps")]

    @staticmethod
    def _until(found: Callable[[], A | None], timeout: float, late: str) -> A:
        """Call `found` until it returns something, and return that. Raises TimeoutError."""
        deadline, pause = time.monotonic() + timeout, 0.2
        while True:
            answer = found()
            if answer is not None:
                return answer
            if time.monotonic() > deadline:
                raise TimeoutError(f"After {timeout:.0f} s {late}.")
            time.sleep(pause)
            pause = min(pause * 1.5, 3.0)


def _id(one: Any) -> str:
    return str(getattr(one, "id", one))


def _npz(arrays: Mapping[str, Array]) -> bytes:
    file = io.BytesIO()
    named: dict[str, Any] = {name: np.asarray(array) for name, array in arrays.items()}
    np.savez(file, **named)
    return file.getvalue()
