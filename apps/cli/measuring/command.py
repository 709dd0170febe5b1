"""The options of `takt measure`, and the document that the command writes."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import compiler
from apps.cli.measuring.machine import Meter, hardware, system
from apps.cli.measuring.running import Feed, fitted, measured, nodes_by_provider, provider_check, runtime, session_open
from apps.cli.recompile import ModelFile, model_of
from apps.figures import count_format, duration_format, fixed, plain
from apps.measurements import FORMAT, NANOSECONDS, document_digest
from compiler.commands import files
from compiler.commands.guard import WrongOption
from compiler.commands.options import add_sizes, at_least, bounds, constants, sizes
from compiler.precision.feeds import SEED, seeded

ABOUT = (
    "Runs a model on generated inputs with ONNX Runtime on this machine. Writes the times, the date, the "
    "hardware and the model's digest to a file. Import the file in Takt under Plans, Other machines. Needs no network. "
    "docs/how-to/compare-places.md describes the file."
)
LISTS_MOST, NAMES_MOST = 8, 8


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `takt measure`."""
    command.add_argument("model", type=Path, help="an ONNX file")
    command.add_argument("-o", "--output", help="write the measurement to this file; without it, it is only printed")
    add_sizes(command)
    command.add_argument(
        "--bound",
        action="append",
        default=[],
        metavar="LOOP=TRIPS",
        help="maximum number of trips of a loop that depends on the data",
    )
    command.add_argument(
        "--constant",
        action="append",
        default=[],
        metavar="INPUT=VALUE",
        help="an input with one value, such as sr=16000; may be repeated",
    )
    command.add_argument(
        "--provider", default="CPUExecutionProvider", help="of ONNX Runtime (default: CPUExecutionProvider)"
    )
    command.add_argument(
        "--threads", type=at_least(0), default=0, help="of one execution (default: 0, as many as ONNX Runtime chooses)"
    )
    command.add_argument("--batch", help="sizes of the variable first dimension, such as 1,8 (default: 1)")
    command.add_argument("--concurrency", default="1", help="executions at the same time, such as 1,2 (default: 1)")
    command.add_argument("--seconds", type=at_least(1), default=2, help="of each row (default: 2)")
    command.add_argument(
        "--machine",
        action="append",
        default=[],
        metavar="NAME",
        help="a name under which price lists or your own machines know this machine; may be repeated",
    )
    command.add_argument("--json", action="store_true", help="print the measurement as JSON")


def measure(options: argparse.Namespace, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> int:
    """Measure the model and write the document. Raises ModelError or WrongOption."""
    if options.output:
        files.keep(options.output, "-o", str(options.model))
    runtime()
    file = model_of(options.model, files.read(options.model, "", "an ONNX model"))
    document = measurement(options, file, now())
    if options.output:
        files.write(options.output, (json.dumps(document, indent=1) + "\n").encode(), "-o")
    sys.stdout.write(json.dumps(document, indent=1) + "\n" if options.json else text(document, options.output))
    return 0


def measurement(options: argparse.Namespace, file: ModelFile, now: datetime) -> dict[str, Any]:
    """Measure the model and return the document, which contains no floating-point numbers."""
    concurrencies = _numbers(options.concurrency, "--concurrency")
    names = [_name(name) for name in options.machine][:NAMES_MOST]
    data, load = file.data, _load()
    stated, leading = sizes(options.dim), leading_dimension(data)
    batches = _batches(options.batch, stated, leading)
    provider_check(options.provider)
    how = {"provider": options.provider, "threads": options.threads}
    session = session_open(data, **how)
    fixed = constants(options.constant)
    rows: list[dict[str, Any]] = []
    nodes: dict[str, int] = {}
    for batch in batches:
        dims = stated if leading is None else {**stated, leading: batch}
        feed = fitted(session, made_up(options.model, dims, bounds(options.bound), fixed) | fixed)
        nodes = nodes or nodes_by_provider(data, feed, **how)
        for concurrency in concurrencies:
            row = measured(
                session,
                feed,
                concurrency=concurrency,
                seconds=options.seconds,
                items=batch,
                meter=Meter(options.provider),
            )
            rows.append({"batch": batch, "concurrency": concurrency, "dims": dims, **row})
    document: dict[str, Any] = {
        "format": FORMAT,
        "measured_at": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "model": {"name": file.name[:200], "sha256": file.sha256, "bytes": len(data)},
        "machine": names,
        "hardware": hardware(),
        "system": system(),
        "load_before": load,
        "runtime": {"name": "onnxruntime", "version": runtime().__version__, **how, "nodes": nodes},
        "inputs": {"made_up": True, "seed": SEED},
        "batch_dimension": leading,
        "rows": rows,
    }
    return {**document, "digest": document_digest(document)}


def leading_dimension(data: bytes) -> str | None:
    """Return the variable dimension that comes first in every input; None if there is none."""
    found = compiler.inspect(data)
    first = {f"{one['name']}[0]" for one in found["inputs"] if one["shape"]}
    return next((name for name, places in found["open_dims"].items() if first and first <= set(places)), None)


def made_up(model: Path, dims: dict[str, int], trips: dict[str, int], fixed: Feed) -> Feed:
    """Return one set of inputs that the compiler generates, without those with a `fixed` value."""
    graph = compiler.load(model, dims=dims, constants=fixed, bounds=trips)
    return seeded(graph, 1)[0]


def _load() -> str | None:
    try:
        return f"{os.getloadavg()[0]:.2f}"
    except (AttributeError, OSError):
        return None


def _batches(text: str | None, stated: dict[str, int], leading: str | None) -> list[int]:
    if text is None:
        return [stated.get(leading, 1) if leading else 1]
    if leading is None:
        raise WrongOption("--batch: the inputs have no common variable first dimension; leave it out")
    if leading in stated:
        raise WrongOption(f"--batch: --dim {leading}={stated[leading]} states it already; give one of the two")
    return _numbers(text, "--batch")


def _numbers(text: str, option: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) <= 6 and int(part) > 0 for part in parts):
        raise WrongOption(
            f"{option} takes whole numbers of at least 1 with commas between them, such as 1,8; not {text!r}"
        )
    found = list(dict.fromkeys(int(part) for part in parts))
    if len(found) > LISTS_MOST:
        raise WrongOption(f"{option} takes at most {LISTS_MOST} numbers")
    return found


def _name(name: str) -> str:
    if not name.strip() or len(name) > 80 or not name.isprintable():
        raise WrongOption("--machine takes a name of 1 to 80 printable characters")
    return name.strip()


def text(document: dict[str, Any], output: str | None) -> str:
    """Return the measurement as text. `output` is the path of the written document, if any."""
    machine, used = document["hardware"], document["runtime"]
    gpus = "".join(f", {one['name']} (driver {one['driver']})" for one in machine["gpus"])
    lines = [
        f"{document['model']['name']} on {machine['cpu']}, {machine['cores']} cores{gpus}",
        f"  {document['measured_at']}, ONNX Runtime {used['version']}, {used['provider']}, generated inputs",
        f"  {'batch':>5} {'at once':>7} {'runs':>7} {'items/s':>12} {'p50':>10} {'p95':>10} {'p99':>10}  power",
    ]
    lines += [_line(row) for row in document["rows"]]
    reasons = list(dict.fromkeys(row["power_reason"] for row in document["rows"] if row["power_reason"]))
    lines += [f"  power is not known: {reason}" for reason in reasons]
    lines.append(
        f"  written to {output}"
        if output
        else "  not written: name a file with -o and import it under Plans, Other machines"
    )
    return "\n".join(lines) + "\n"


def _line(row: dict[str, Any]) -> str:
    times = [plain(duration_format(Fraction(row[name], NANOSECONDS))) for name in ("p50_ns", "p95_ns", "p99_ns")]
    columns = " ".join(f"{one.replace('µ', 'u'):>10}" for one in times)
    rate = fixed(Fraction(row["items_per_second"]), 1)
    power = row["power"]
    drawn = f"{fixed(Fraction(power['milliwatts'], 1000), 1)} W ({power['source']})" if power else "not known"
    return (
        f"  {row['batch']:>5} {row['concurrency']:>7} {count_format(row['samples']):>7} {rate:>12} {columns}  {drawn}"
    )
