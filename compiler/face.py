"""Reading models and showing programs: what the package's face adds to ``compile`` and ``simulate``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, overload

from compiler.arguments import bounds_of, constants_of, context_of, dims_of, states_of
from compiler.bundle import Buckets, combinations
from compiler.driver import quiet
from compiler.program import Program

if TYPE_CHECKING:
    from compiler.frontend.reader import Source
    from compiler.frontend.states import Pair
    from compiler.ir import Graph

Dims = Mapping[str, int | Sequence[int]]


@overload
def load(
    model: Source,
    dims: Mapping[str, int] | None = ...,
    constants: Mapping[str, Any] | None = ...,
    *,
    states: Sequence[Pair] = ...,
    bounds: Mapping[str, int] | None = ...,
    context: int | None = ...,
    caches: Sequence[tuple[str, str]] = ...,
    on_stage: Callable[[str], None] = ...,
) -> Graph: ...
@overload
def load(
    model: Source,
    dims: Dims,
    constants: Mapping[str, Any] | None = ...,
    *,
    states: Sequence[Pair] = ...,
    bounds: Mapping[str, int] | None = ...,
    context: int | None = ...,
    caches: Sequence[tuple[str, str]] = ...,
    on_stage: Callable[[str], None] = ...,
) -> Graph | Buckets: ...


def load(
    model: Source,
    dims: Dims | None = None,
    constants: Mapping[str, Any] | None = None,
    *,
    states: Sequence[Pair] = (),
    bounds: Mapping[str, int] | None = None,
    context: int | None = None,
    caches: Sequence[tuple[str, str]] = (),
    on_stage: Callable[[str], None] = quiet,
) -> Graph | Buckets:
    """The graph of a model with its dimensions bound: ONNX (path, bytes, parsed proto) or the text form (path, string).

    ``dims``: symbolic dimension -> size, or a list of buckets: then every combination is loaded and ``compile`` makes a
    bundle. ``constants``: inputs whose value the compiler must know. ``states``: (input, output) pairs, or with the first
    value (input, output, array), that stay on the processor from one inference to the next. ``bounds``: loop name -> the most
    trips that it makes, where its end depends on the data. ``context``: rows of caches that the model continues by
    concatenation; they become variables with a length, all that are found or only the (input, output) pairs in ``caches``.
    The text form (docs/compiler/text.md) has all this written in it and
    takes none. ``ModelError`` lists every problem at once.
    """
    from compiler import frontend
    from compiler.errors import ModelError
    from compiler.ir import written

    given, constants, bounds, states = dims_of(dims), constants_of(constants), bounds_of(bounds), states_of(states)
    rows = context_of(context, caches)
    on_stage("read")
    if isinstance(model, str | PathLike) and not str(model):
        raise ModelError("no model is named; give the path of an ONNX file")
    text = written.text_of(model)
    on_stage("shapes")
    if text is not None:
        if any((given, constants, states, bounds, rows)):
            raise ModelError("the text form leaves nothing open; write dimensions, constants and states into it")
        on_stage("lower")
        return written.load(*text)
    fixed = {k: v for k, v in given.items() if isinstance(v, int)}
    if len(fixed) == len(given):
        on_stage("lower")
        return frontend.load(model, fixed, constants, states=states, bounds=bounds, **rows)
    bindings = combinations(given)
    on_stage("lower")
    graphs = tuple(frontend.load(model, b, constants, states=states, bounds=bounds, **rows) for b in bindings)
    return Buckets(tuple(bindings), graphs)


def inspect(model: Source) -> dict[str, Any]:
    """What a model asks for before it can be compiled: inputs, outputs, open dimensions, operators, problems."""
    from compiler.inspection import inspect as look

    return look(model)


def report(program: Program) -> dict[str, Any]:
    """The whole report as plain data (see ``compiler.reporting.whole``)."""
    return program.report()


def chrome_trace(program: Program) -> dict[str, Any]:
    """The schedule as trace events for common viewers."""
    return program.chrome_trace()


def disassemble(data: bytes) -> str:
    """The text of a program's bytes."""
    return Program.from_bytes(data).disassemble()
