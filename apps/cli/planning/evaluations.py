"""Evidence of the models' accuracy: evaluation documents, stated counts, or runs on a data set.

All models of a task must be evaluated on the same items.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import numpy as np

import compiler
from apps.cli.planning.programs import Facts, Model
from apps.cli.planning.reading import FileFault, Table, digest_of, file_read
from apps.cli.planning.task import json_read
from apps.planner.metrics import K_MAX, LIMIT_MAX, METRICS, NUMERIC, VOTING, Metric, MetricError, Verdict, judge
from apps.planner.scores import bound_of
from apps.planner.solver import Answers, Evaluated
from apps.registry.feeds import InputError, Limits
from apps.registry.labelled import Labelled, labelled_read, split

EVALUATION = "takt-evaluation/1"
DOCUMENT = f"an evaluation document ({EVALUATION}; docs/how-to/evaluate-a-model.md)"
DATA_KEYS = ("file", "seed", "choose_percent", "metric", "k", "limit", "output")
LIMITS = Limits()
CALIBRATION_ITEMS = 100
BLOCK = 200  # items in one call of the simulator
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass
class Known:
    """The evidence for each model. `data` is the task's data set, if there is one."""

    documents: dict[str, Evaluated] = field(default_factory=dict)
    data: DataSet | None = None
    words: str = ""
    is_signed: bool = True  # every model's file is given, which says what one item is

    @property
    def metric(self) -> str:
        return "accuracy" if self.data is None else self.data.metric.title


@dataclass
class DataSet:
    """A labelled data set with its split and metric.

    `answers` maps the digest of each program to the program's evaluated outputs.
    """

    path: Path
    table: Table
    labelled: Labelled
    metric: Metric
    output: str
    seed: int
    choose: int
    answers: dict[str, Evaluated] = field(default_factory=dict)
    float32: dict[str, Any] = field(default_factory=dict)


def known_read(task: Table, models: list[Model]) -> Known:
    """Read the evidence that the task names. Raises FileFault."""
    known = _known(task, models)
    known.is_signed = all(model.graph is not None for model in models)
    return known


def _known(task: Table, models: list[Model]) -> Known:
    table = task.table("data")
    if table is not None:
        stated = [one for one in models if "evaluation" in one.table or "stated" in one.table]
        if stated:
            raise stated[0].table.wrong(
                "evaluation", "the task names a data set, on which every model is run; remove this key."
            )
        data = _data_set(table, models)
        return Known(data=data, words=f"{data.metric.title} on {data.path.name}, simulated")
    return _stated(models)


def _stated(models: list[Model]) -> Known:
    with_document, with_counts = ([one for one in models if key in one.table] for key in ("evaluation", "stated"))
    if with_document and with_counts:
        said = "other models of the task have evaluation documents; counts of other items cannot be compared with them."
        raise with_counts[0].table.wrong("stated", said)
    known = Known(documents={model.name: _counts(model) for model in with_counts})
    splits: dict[str, str] = {}
    for model in with_document:
        known.documents[model.name], splits[model.name] = _document(model)
    _same_items_check(with_document, splits)
    known.words = "evaluation documents" if with_document else "stated counts" if with_counts else "not evaluated"
    return known


def _same_items_check(models: list[Model], splits: dict[str, str]) -> None:
    for model in models:
        if splits[model.name] != splits[models[0].name]:
            said = f"it was made on other items than the one of {models[0].name}; evaluate both on the same data."
            raise model.table.wrong("evaluation", said)


def _document(model: Model) -> tuple[Evaluated, str]:
    place = model.table.at("evaluation")
    path = model.table.path_of("evaluation")
    document = json_read(path, DOCUMENT, named_by=place)
    if document.get("format") != EVALUATION:
        raise FileFault(path, "format", f"it is {document.get('format')!r}; give {DOCUMENT}.")
    told = str(document.get("model_sha256"))
    if model.sha256 and told != model.sha256:
        said = (
            f"it is of another model file ({told[:12]}..., and {model.name} is {model.sha256[:12]}...): evaluate the changed "
            f"model, or remove {place}."
        )
        raise FileFault(path, "model_sha256", said)
    try:
        splits = document["splits"]
        parts = {name: _part(path, name, splits[name]) for name in ("choose", "evaluate")}
        digests = " ".join(str(splits[name]["dataset_digest"]) for name in parts)
    except (KeyError, TypeError, AttributeError):
        raise FileFault(
            path, "splits", f"choose and evaluate with their labels and answers belong here; give {DOCUMENT}."
        ) from None
    return Evaluated(parts["choose"], parts["evaluate"], str(document.get("confidence_output", ""))), digests


def _part(path: Path, name: str, part: Mapping[str, Any]) -> Answers:
    labels, predicted, confidence = part["labels"], part["predicted"], part["confidence"]
    if not len(labels) == len(predicted) == len(confidence) > 0:
        raise FileFault(
            path, f"splits.{name}", "labels, predicted and confidence need one entry for each item, and at least one."
        )
    try:
        answers = Answers.of(labels, predicted, [str(one) for one in confidence])
    except InvalidOperation:
        raise FileFault(
            path, f"splits.{name}.confidence", 'write decimals from 0 to 1 as texts, such as "0.97".'
        ) from None
    if not all(Decimal(0) <= one <= 1 for one in answers.confidence):
        raise FileFault(path, f"splits.{name}.confidence", 'write decimals from 0 to 1 as texts, such as "0.97".')
    return answers


def _counts(model: Model) -> Evaluated:
    # Stated counts do not tell which items were answered correctly, so they cannot be used to choose thresholds or
    # build cascades.
    table = model.table.table("stated") or model.table
    table.only(("correct", "total"))
    total = table.whole("total", most=10**6)
    correct = table.whole("correct", least=0, most=10**6)
    if total is None or correct is None or correct > total:
        raise table.wrong(
            "correct", "state correct and total, right answers among the items: { correct = 590, total = 600 }."
        )
    right = (True,) * correct + (False,) * (total - correct)
    return Evaluated(Answers((False,), (Decimal(0),)), Answers(right, (Decimal(0),) * total), "")


def _data_set(table: Table, models: list[Model]) -> DataSet:
    table.only(DATA_KEYS)
    path = table.path_of("file")
    data = file_read(
        path, "a data set: an .npz file with an array for each input, and labels", named_by=table.at("file")
    )
    try:
        labelled = labelled_read(io.BytesIO(data), LIMITS)
    except InputError as error:
        raise FileFault(path, "", " ".join(error.problems)) from None
    limit = table.number("limit", above=True, most=LIMIT_MAX)
    metric = Metric(table.text("metric", "accuracy"), table.whole("k", most=K_MAX) or 1, limit)
    if metric.name not in METRICS:
        raise table.wrong("metric", f"there is no metric {metric.name!r}; choose one of {', '.join(METRICS)}.")
    if metric.needs_limit and limit is None:
        raise table.wrong(
            "limit", f"the metric {metric.name} needs one: the largest error or difference, or dB; write it here."
        )
    if metric.needs_labels and labelled.labels is None:
        raise FileFault(path, "labels", f"the metric {metric.title} needs labels; add them, or choose agreement.")
    for model in models:
        if model.graph is None:
            raise model.table.wrong(
                "programs", "a data set is run on programs that are compiled here; name the model's file."
            )
    percent = table.whole("choose_percent", most=99) or 33
    choose = min(max(1, labelled.items * percent // 100), labelled.items - 1)
    return DataSet(path, table, labelled, metric, table.text("output", ""), table.whole("seed", least=0) or 0, choose)


def together(known: Known, model: Model, answers: Evaluated) -> dict[str, Any]:
    """Return the facts that decide whether a variant can be combined with other variants."""
    if model.graph is None:
        return {"classes": None}
    graph = model.graph
    takes = tuple(sorted((name, graph.types[name].dtype.name, tuple(graph.types[name].shape)) for name in graph.inputs))
    sizes = [size for size in graph.types[answers.output].shape if size != 1] if answers.output in graph.types else []
    votes = known.metric in VOTING and len(sizes) == 1
    return {"takes": takes if known.is_signed else None, "classes": sizes[0] if votes else None}


def feeds_of(data: DataSet, model: Model, items: Array) -> list[dict[str, Array]]:
    """Return one feed for each item, in the types and shapes of the model's inputs. Raises FileFault."""
    inputs = {name: model.graph.types[name] for name in model.graph.inputs}
    arrays = data.labelled.inputs
    if len(inputs) == len(arrays) == 1:
        arrays = {next(iter(inputs)): next(iter(arrays.values()))}
    if set(inputs) != set(arrays):
        raise FileFault(
            data.path, "", f"it has arrays {', '.join(sorted(arrays))}; {model.name} takes {', '.join(sorted(inputs))}."
        )
    shaped = {}
    for name, kind in inputs.items():
        array = arrays[name]
        if int(np.prod(array.shape[1:])) != int(np.prod(kind.shape)):
            given, wanted = (" × ".join(map(str, sizes)) for sizes in (array.shape[1:], kind.shape))
            raise FileFault(
                data.path, name, f"one item is {given}, and {model.name} takes {wanted}; send items of that size."
            )
        shaped[name] = array[items].reshape(len(items), *kind.shape).astype(kind.dtype.numpy)
    return [{name: np.ascontiguousarray(array[item]) for name, array in shaped.items()} for item in range(len(items))]


def calibrate(data: DataSet, model: Model) -> None:
    """Calibrate float16 and int8 on items of the tuning part."""
    if model.ranges is None and any(one != "float32" for one in model.precisions):
        chosen = split(data.labelled.items, seed=data.seed, choose=data.choose).choose[:CALIBRATION_ITEMS]
        model.ranges = compiler.calibrate(model.graph, feeds_of(data, model, chosen))


def evaluated(data: DataSet, model: Model, facts: Facts) -> Evaluated:
    """Run the program in the simulator on every item, and evaluate the outputs. Raises FileFault."""
    if facts.digest in data.answers:
        return data.answers[facts.digest]
    assert facts.binary is not None, "programs of a data set are compiled here"
    items = np.arange(data.labelled.items)
    feeds = feeds_of(data, model, items)
    results = []
    for start in range(0, len(feeds), BLOCK):
        results += compiler.simulate(facts.binary, feeds[start : start + BLOCK])[0]
    name = data.output or _output(results[0])
    if name not in results[0]:
        raise data.table.wrong(
            "output", f"{model.name} has no output {name!r}; it has {', '.join(sorted(results[0]))}."
        )
    answers = np.stack([result[name] for result in results])
    try:
        verdict = judge(data.metric, answers, name, _expected(data, model, facts))
    except MetricError as error:
        raise FileFault(data.path, "", f"{model.name}: {error}") from None
    if facts.precision == "float32":
        data.float32.setdefault(model.name, answers if data.metric.name in NUMERIC else verdict.predicted)
    data.answers[facts.digest] = _parted(data, verdict, name)
    return data.answers[facts.digest]


def _expected(data: DataSet, model: Model, facts: Facts) -> Any:
    if not data.metric.compares_with_float32:
        return data.labelled.labels
    if facts.precision == "float32":
        return None
    if model.name not in data.float32:
        raise model.table.wrong(
            "precisions", "the metric compares with float32; put float32 first among the precisions."
        )
    return data.float32[model.name]


def _parted(data: DataSet, verdict: Verdict, name: str) -> Evaluated:
    parts = split(data.labelled.items, seed=data.seed, choose=data.choose)
    choose, promise = (_answers(verdict, part) for part in parts)
    columns: dict[str, list[Any]] = {
        "labels": verdict.labels,
        "predicted": verdict.predicted,
        "confidence": verdict.confidence,
    }
    sides = {
        side: {key: [column[int(one)] for one in part] for key, column in columns.items()}
        for side, part in (("choose", parts.choose), ("evaluate", parts.promise))
    }
    return Evaluated(choose, promise, name if verdict.has_confidence else "", bound_of(data.metric.title, sides))


def _answers(verdict: Verdict, items: Array) -> Answers:
    labels, predicted = ([column[int(one)] for one in items] for column in (verdict.labels, verdict.predicted))
    return Answers.of(labels, predicted, [verdict.confidence[int(one)] for one in items])


def _output(result: Mapping[str, Array]) -> str:
    scored = [name for name, array in result.items() if sum(size != 1 for size in array.shape) == 1]
    return [*scored, *result][0]


def file_digest(data: DataSet | None) -> str:
    """Return the data set's digest; empty if there is no data set."""
    return "" if data is None else digest_of(data.labelled.to_bytes())
