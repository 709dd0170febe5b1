"""A customer's programs against the running product: the typed client, and an assistant over the MCP server."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from takt import Client, Job
from tests.e2e.product import ROOT, Product


def client_of(product: Product) -> Client:
    """The demo owner's client."""
    return Client(product.url, product.demo["token"])


def buy_and_run(client: Client, model: Path, *, items: int) -> tuple[Job, dict[str, Any], dict[str, Any]]:
    """From the file to the outputs, by the client alone: the job, its inputs, its outputs."""
    version = client.upload(model, name="by the client")
    (program,) = client.compile(version, target="lpu", dims={one["name"]: 1 for one in version.symbolic_dims})
    quote = client.quote(program, items)
    contract = client.accept(quote)
    assert contract.net == quote.net
    random = np.random.default_rng(5)
    inputs = {one["name"]: random.random((items, *one["shape"])).astype(one["dtype"]) for one in program.inputs}
    job = client.wait(client.submit(contract, inputs))
    return job, inputs, client.outputs(job)


Call = Callable[[str, dict[str, Any]], Awaitable[Any]]


def by_assistant(product: Product, work: Callable[[Call], Awaitable[None]]) -> None:
    """Start the MCP server as an assistant does, over standard input and output, and let `work` call its tools."""
    with ThreadPoolExecutor(1) as apart:  # Playwright's synchronous face has a loop in this thread
        apart.submit(lambda: asyncio.run(_session(product, work))).result()


async def _session(product: Product, work: Callable[[Call], Awaitable[None]]) -> None:
    environment = {**os.environ, "TAKT_URL": product.url, "TAKT_TOKEN": product.demo["token"]}
    parameters = StdioServerParameters(command=sys.executable, args=["-m", "takt.mcp"], cwd=ROOT, env=environment)
    async with stdio_client(parameters) as (reader, writer), ClientSession(reader, writer) as session:
        await session.initialize()
        names = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert len(names) == 9
        assert all(tool.description for tool in names.values())

        async def call(name: str, arguments: dict[str, Any]) -> Any:
            """What a tool answers: its data, or the text of its error."""
            answer = await session.call_tool(name, arguments)
            texts = [one.text for one in answer.content if one.type == "text"]
            if answer.isError:
                return {"error": "\n".join(texts)}
            return answer.structuredContent if answer.structuredContent is not None else json.loads(texts[0])

        await work(call)
