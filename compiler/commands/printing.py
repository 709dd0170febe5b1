"""The command ``print``: a model in the text form, which ``compile`` and all other commands read back."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import suppress
from pathlib import Path

from compiler.commands import files
from compiler.commands.guard import WrongOption
from compiler.commands.options import add_course, add_sizes, loaded, sizes
from compiler.commands.progress import shown
from compiler.errors import ModelError
from compiler.ir import Graph
from compiler.ir.text import blobs, file_text
from compiler.ir.written import FILE_BYTES

ABOUT = "print a model as text with all its weights, which compiles to the same program, byte for byte"
APART = "--separate-arrays"


def add_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "-o", "--output", default="-", help="file for the text, such as model.takt.txt (default: -, the screen)"
    )
    command.add_argument(
        APART,
        action="store_true",
        help="write long arrays into an .npz file beside the text instead of behind the graph",
    )
    add_sizes(command)
    add_course(command)


def run(chosen: argparse.Namespace) -> None:
    """Print or write the text. ``WrongOption`` when it would be written over the model, or arrays have no place."""
    to_file = chosen.output != "-"
    beside = _check(chosen)
    sizes(chosen.dim)  # one of each dimension: a graph has one
    with shown(chosen.progress) as on_stage:
        graph = loaded(files.source(chosen.model), chosen, on_stage)
    assert isinstance(graph, Graph)
    text = "".join(file_text(graph, arrays=beside is None))
    if not to_file:
        sys.stdout.write(json.dumps({"text": text}) + "\n" if chosen.form == "json" else text)
        return
    if len(text) > FILE_BYTES:
        raise ModelError(f"the text has {len(text)} bytes, and {FILE_BYTES} can be read back; add {APART}")
    if beside is not None:
        files.write_arrays(str(beside), blobs(graph), APART)
    files.write(chosen.output, text.encode(), "--output")
    written = {chosen.output: len(text)} | ({} if beside is None else {str(beside): beside.stat().st_size})
    lines = [f"wrote {size:,} bytes to {path}" for path, size in written.items()]
    sys.stdout.write((json.dumps(written) if chosen.form == "json" else "\n".join(lines)) + "\n")


def _check(chosen: argparse.Namespace) -> Path | None:
    """The file for arrays, if any."""
    read = [chosen.model]
    with suppress(ValueError):  # a path that ends in no name
        read.append(str(Path(chosen.model).with_suffix(".npz")))
    if chosen.output != "-":
        files.keep(chosen.output, "--output", *read)
    if not chosen.separate_arrays:
        return None
    if chosen.output == "-":
        raise WrongOption(f"{APART}: the arrays go beside the file of the text; name it with --output")
    beside = Path(chosen.output).with_suffix(".npz")
    if beside == Path(chosen.output):
        raise WrongOption(
            f"--output {chosen.output}: the arrays go there; name another file for the text, such as model.takt.txt"
        )
    files.keep(str(beside), APART, *read)
    return beside
