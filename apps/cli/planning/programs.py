"""The programs of a task's models, compiled here or read from reports and binaries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import compiler
from apps.cli.planning.reading import FileFault, Table, digest_of, file_read
from apps.cli.planning.task import json_read
from apps.fleet.document import Document
from compiler import targets
from compiler.commands.words import spoken
from compiler.precision import PRECISIONS
from compiler.targets import Target

KEYS = ("file", "programs", "precisions", "dims", "evaluation", "stated", "ranges")
WHAT = "an ONNX model"
REPORT = "a program, or its report: takt report --json writes it"


@dataclass(frozen=True)
class Facts:
    """The counts for one execution of a program.

    `load` is the number of cycles to load the program; 0 if unknown. `binary` is None if not available.
    """

    target: str
    precision: str
    operations: int
    interval: int
    latency: int
    clock_hz: int
    exact: bool
    digest: str
    binary: bytes | None = None
    load: int = 0


@dataclass
class Model:
    """A model of the task.

    `sha256` is the digest of the model file, or empty. `made` maps each target and precision to a program, or to the
    reason why there is no program.
    """

    name: str
    table: Table
    sha256: str
    graph: Any
    precisions: list[str]
    dims: dict[str, int]
    made: dict[tuple[str, str], Facts | str] = field(default_factory=dict)
    ranges: compiler.Calibration | None = None


def models_read(task: Table) -> list[Model]:
    """Return the task's models in the order of the file. Raises FileFault."""
    found = [_model(name, table) for name, table in task.tables("models")]
    if not found:
        raise task.wrong("models", 'name at least one model: [models.NAME] with file = "model.onnx".')
    return found


def _model(name: str, table: Table) -> Model:
    table.only(KEYS)
    if ("file" in table) == ("programs" in table):
        raise table.wrong("file", "give a model's file, or programs with reports of what was compiled: one of the two.")
    precisions = table.texts("precisions", ["float32"])
    for one in precisions:
        if one not in PRECISIONS:
            raise table.wrong("precisions", f"there is no precision {one!r}; choose among {', '.join(PRECISIONS)}.")
    model = Model(name, table, "", None, precisions, table.counts("dims"))
    if "programs" in table:
        _programs(model)
        return model
    path = table.path_of("file")
    data = file_read(path, WHAT, named_by=table.at("file"))
    model.sha256 = digest_of(data)
    try:
        model.graph = compiler.load(data, dims=model.dims)
    except compiler.ModelError as error:
        raise FileFault(
            path, "", f"{error.told(spoken)} ({table.at('file')} names it; sizes go to {table.at('dims')})."
        ) from None
    model.ranges = _ranges(table)
    return model


def _ranges(table: Table) -> compiler.Calibration | None:
    if "ranges" not in table:
        return None
    path = table.path_of("ranges")
    data = file_read(path, "the ranges.json of a compile", named_by=table.at("ranges"))
    try:
        return compiler.Calibration.from_json(data.decode("utf-8", "replace"))
    except (compiler.ModelError, ValueError, KeyError, TypeError, AttributeError):
        raise FileFault(
            path, "", "these are not ranges; give the ranges.json of a compile, or remove the key."
        ) from None


def _programs(model: Model) -> None:
    folder = model.table.path.parent
    for name in model.table.texts("programs"):
        path = folder / name
        data = file_read(path, REPORT, named_by=model.table.at("programs"))
        facts = _report(path, model) if data.lstrip()[:1] in (b"{", b"[") else _binary(path, data)
        model.made[(facts.target, facts.precision)] = facts
    model.precisions = [one for one in PRECISIONS if one in {precision for _, precision in model.made}]


def _report(path: Path, model: Model) -> Facts:
    document = json_read(path, REPORT, named_by=model.table.at("programs"))
    try:
        counts = document["resources"]
        sha256 = str(document["sha256"])
        facts = Facts(
            str(document["target"]),
            str(document["precision"]),
            int(counts["operations"]),
            int(counts["interval"]),
            int(counts["cycles"]),
            int(document["clock_hz"]),
            counts["exact"] is True,
            str(document["program"]),
            load=int((counts.get("load") or {}).get("cycles_in", 0)),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise FileFault(path, "", f"this is not a report of one program; give {REPORT}.") from None
    if model.sha256 not in ("", sha256):
        said = f"it is of another model file than the other reports of {model.name}; make them again from one file."
        raise FileFault(path, "sha256", said)
    model.sha256 = sha256
    return facts


def _binary(path: Path, data: bytes) -> Facts:
    try:
        return facts_of(compiler.Program.from_bytes(data), data)
    except compiler.ModelError as error:
        raise FileFault(path, "", f"{error.told(spoken)}; give {REPORT}.") from None


def facts_of(program: compiler.Program, data: bytes | None = None) -> Facts:
    """Return the facts of a compiled program."""
    head, counts = program.report()["headline"], program.resources
    return Facts(
        program.target.name,
        head["precision"],
        counts.operations,
        counts.interval,
        counts.cycles,
        program.target.clock_hz,
        counts.exact,
        program.digest,
        data or program.to_bytes(),
        load=0 if counts.load is None else counts.load.cycles_in,
    )


def processors_of(fleet: Document) -> dict[str, Target]:
    """Return the processors of the fleet's pools by name."""
    names = {pool.processor for pool in fleet.pools.values() if not pool.is_host}
    own = {name: targets.register(targets.parse(text)) for name, text in fleet.processors.items()}
    return {name: own[name] if name in own else targets.load(name) for name in sorted(names)}


def compiled(model: Model, machine: Target, precision: str) -> Facts | str:
    """Return the model's program for a processor, or the reason why there is no program."""
    key = (machine.name, precision)
    if key not in model.made:
        model.made[key] = _compiled(model, machine, precision)
    return model.made[key]


def _compiled(model: Model, machine: Target, precision: str) -> Facts | str:
    if model.graph is None:
        return f"{model.name} has no program for {machine.name} in {precision}: name its report in {model.table.at('programs')}."
    try:
        made = compiler.compile(model.graph, machine, precision, None if precision == "float32" else model.ranges)
    except compiler.ModelError as error:
        return f"{model.name} cannot be compiled for {machine.name} in {precision}: {error.told(spoken)}"
    if not isinstance(made, compiler.Program):
        raise model.table.wrong("dims", "state one size for each dimension; a plan is of one kind of item.")
    return facts_of(made)


def digests_of(models: list[Model]) -> Mapping[str, str]:
    """Map each model's name to a digest of its file or, if there is no file, of its programs."""
    return {one.name: one.sha256 or ",".join(sorted(_digests(one))) for one in models}


def _digests(model: Model) -> list[str]:
    return [one.digest for one in model.made.values() if isinstance(one, Facts)]
