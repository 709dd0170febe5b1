"""An MCP server over the client: `takt-mcp`, or `python -m takt.mcp`. Needs the extra `mcp` (`pip install takt[mcp]`).

It reads TAKT_URL and TAKT_TOKEN. What spends money or draws on what was bought needs a token with a spend cap, so that an
assistant can never spend more than its owner said beforehand; the cap itself is kept by the server.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
from mcp.server.fastmcp import FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from mcp.types import ToolAnnotations

from takt.client import Client
from takt.errors import Failed, Refused, Unreachable
from takt.records import Program

P = ParamSpec("P")
T = TypeVar("T")
ROWS_MAX = 50
READS = ToolAnnotations(readOnlyHint=True, openWorldHint=False)
CREATES = ToolAnnotations(readOnlyHint=False, destructiveHint=False, idempotentHint=False, openWorldHint=False)
SPENDS = ToolAnnotations(readOnlyHint=False, destructiveHint=True, idempotentHint=False, openWorldHint=False)
INSTRUCTIONS = (
    "Takt compiles ONNX models for deterministic processors and sells executions of them. Upload a model, compile it, read "
    "its report, make a quote, and only after the user agrees to the price accept it and submit a job."
)
NO_CAP = (
    "This token has no spend cap, so nothing is bought or run with it here. An owner or a billing person sets one under "
    "Portal, Caps, for this API token."
)


def _told(tool: Callable[P, T]) -> Callable[P, T]:
    """Refusals become errors that the assistant can read and act on."""

    @wraps(tool)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return tool(*args, **kwargs)
        except (Refused, Unreachable, Failed, TimeoutError, OSError, ValueError) as error:
            raise ToolError(_sentence(error)) from error

    return call


def _sentence(error: Exception) -> str:
    faults = [str(fault.get("message", fault)) for fault in error.errors[:10]] if isinstance(error, Refused) else []
    return "\n".join([str(error), *faults])


def server(client: Client) -> FastMCP[None]:
    """The tools, each one call of `client` or a few."""
    made: FastMCP[None] = FastMCP("takt", instructions=INSTRUCTIONS, log_level="WARNING")
    tools = Tools(client)
    for tool, notes in (
        (tools.list_models, READS),
        (tools.upload_model, CREATES),
        (tools.compile_model, CREATES),
        (tools.program_report, READS),
        (tools.make_quote, CREATES),
        (tools.accept_quote, SPENDS),
        (tools.submit_job, SPENDS),
        (tools.job_result, CREATES),
        (tools.spending, READS),
    ):
        made.tool(annotations=notes)(_told(tool))
    return made


class Tools:
    """What an assistant may do. The docstrings are what it reads."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list_models(self) -> dict[str, Any]:
        """The newest model versions and programs, and the processors and pools that can be chosen."""
        client = self._client
        versions = [
            {"id": one.id, "model": one.model, "number": one.number, "variable_dimensions": one.symbolic_dims}
            for one in islice(client.versions(), ROWS_MAX)
        ]
        programs = [_program(one) for one in islice(client.programs(), ROWS_MAX)]
        pools = [{"slug": one.slug, "processor": one.target or "host"} for one in client.pools()]
        return {"versions": versions, "programs": programs, "processors": client.targets(), "pools": pools}

    def upload_model(self, path: str, name: str = "") -> dict[str, Any]:
        """Upload an ONNX file from this machine. Returns the version's id and the dimensions that need sizes."""
        one = self._client.upload(Path(path).expanduser(), name=name)
        return {"id": one.id, "model": one.model, "inputs": one.inputs, "variable_dimensions": one.symbolic_dims}

    def compile_model(
        self, version: str, processor: str, precision: str = "float32", dimensions: dict[str, int] | None = None
    ) -> list[dict[str, Any]]:
        """Compile a version for a processor (such as lpu) in float32, float16 or int8, with a size for each variable
        dimension. Waits until it is done and returns the programs."""
        compiled = self._client.compile(version, target=processor, precision=precision, dims=dimensions)
        return [_program(one) for one in compiled]

    def program_report(self, program: str) -> dict[str, Any]:
        """What one inference takes: cycles, operations, bytes, memory; exact, or a proven upper bound with its reason."""
        one = self._client.program(program)
        return {**_program(one), "resources": one.resources, "reason": one.reason, "inputs": one.inputs}

    def make_quote(self, program: str, executions: int, klass: str = "standard", pool: str = "") -> dict[str, Any]:
        """Price a number of executions. Costs nothing and reserves nothing; the price holds until `valid_until`."""
        one = self._client.quote(program, executions, klass=klass, pool=pool)
        return {
            "id": one.id,
            "net": str(one.net),
            "currency": one.currency,
            "class": one.klass,
            "pool": one.pool,
            "valid_until": one.valid_until.isoformat(),
            "late_cancellation": one.raw["document"].get("late"),
            "page": f"{self._client.url}/quotes/{one.id}",
        }

    def accept_quote(self, quote: str) -> dict[str, Any]:
        """Buy what a quote offers. This spends money: ask the user first. Needs a token with a spend cap."""
        self._cap_required()
        one = self._client.accept(quote)
        return {"contract": one.id, "net": str(one.net), "currency": one.currency, "ends_at": one.ends_at.isoformat()}

    def submit_job(self, contract: str, inputs: str, program: str = "") -> dict[str, Any]:
        """Run a contract's program on a .npz file of this machine: one array for each input, the items along the leading
        axis. Draws on the contract. Needs a token with a spend cap."""
        self._cap_required()
        with np.load(Path(inputs).expanduser(), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        one = self._client.submit(contract, arrays, program=program or None)
        return {
            "job": one.id,
            "state": one.state,
            "items": one.items,
            "quoted": str(one.quoted),
            "currency": one.currency,
        }

    def job_result(self, job: str, save_to: str = "") -> dict[str, Any]:
        """A job's state, cost and, once it is done, the shapes of its outputs. `save_to` writes them to a new .npz file."""
        one = self._client.job(job)
        told: dict[str, Any] = {
            "state": one.state,
            "items": one.items,
            "done": one.executions_done,
            "cost": str(one.cost),
            "currency": one.currency,
            "problem": one.problem,
        }
        if one.state == "done":
            arrays: dict[str, Any] = dict(self._client.outputs(job))
            told["outputs"] = {name: list(array.shape) for name, array in arrays.items()}
            if save_to:
                with Path(save_to).expanduser().open("xb") as file:  # never over another file
                    np.savez(file, **arrays)
        return told

    def spending(self) -> dict[str, Any]:
        """What would be invoiced now, and the spend caps with what is used and held of them this month."""
        draft = self._client.draft() or {}
        caps = [
            {
                "scope": one.scope,
                "cap": str(one.cap),
                "used": str(one.used),
                "held": str(one.held),
                "currency": one.currency,
            }
            for one in self._client.spend_caps()
        ]
        return {"draft_net": draft.get("net"), "currency": draft.get("currency"), "caps": caps}

    def _cap_required(self) -> None:
        me = self._client.me()
        if me.token is None or all(cap.token != me.token for cap in self._client.spend_caps()):
            raise ToolError(NO_CAP)


def _program(one: Program) -> dict[str, Any]:
    return {
        "id": one.id,
        "version": one.version_id,
        "processor": one.target,
        "precision": one.precision,
        "dimensions": one.dims,
        "latency_cycles": one.latency_cycles,
        "interval_cycles": one.interval_cycles,
        "clock_hz": one.clock_hz,
        "operations": one.operations,
        "exact": one.exact,
    }


def main() -> None:
    """Serve over standard input and output."""
    server(Client()).run()


if __name__ == "__main__":
    main()
