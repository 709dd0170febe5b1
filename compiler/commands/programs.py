"""Compiled programs that commands read, and the processor that goes with each."""

from __future__ import annotations

import argparse

from compiler import bundle, targets
from compiler.bundle import Bundle
from compiler.commands import files, options
from compiler.commands.guard import WrongOption
from compiler.errors import ModelError
from compiler.isa import binary
from compiler.program import Program

MAGICS = (binary.MAGIC, bundle.MAGIC, bundle.SHARED)
WHAT = "a program that compile wrote"


def of(found: Program | Bundle) -> list[Program]:
    """The programs of a file: one, or one for each size."""
    return list(found.programs) if isinstance(found, Bundle) else [found]


def is_program(data: bytes) -> bool:
    """Whether the bytes of a file are a program or a bundle, by how they begin."""
    return data.startswith(MAGICS)


def read(path: str) -> list[Program]:
    """The programs of a file."""
    data = files.read(path, "", WHAT)
    if not is_program(data):
        raise ModelError(f"{path} is not a compiled program; takt compile MODEL -o FILE writes one")
    try:
        return of(bundle.read_programs(data))
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error


def known(programs: list[Program], target: str | None) -> list[Program]:
    """The programs, whose processor is found from now on. ``target``: its name or file, where the command line gives one;
    ``ModelError`` when a program was not compiled for it, or when it is not given and cannot be found."""
    machine = None if target is None else options.processor(target)
    for program in programs:
        targets.find(program.binary.target, program.binary.target_digest, machine)
    return programs


def refuse_typed(path: str, chosen: argparse.Namespace) -> None:
    """``WrongOption`` when options ask for something else than a compiled program is."""
    wrong = [name for name in options.typed(chosen) if name != "--target"]
    if wrong:
        raise WrongOption(
            f"{path} is a compiled program, which keeps the precision, objective and sizes that it was compiled with: leave "
            f"{' and '.join(wrong)} away, or give the model"
        )
