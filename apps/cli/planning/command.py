"""`takt plan`: its options and exit status."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from apps.cli.planning import saved, wording
from apps.cli.planning.answer import Answer, answer_json, answer_of
from apps.cli.planning.saved import Check, check_of, plan_read, plan_write
from compiler.commands import files
from compiler.commands.guard import WrongOption

FITS, DOES_NOT, UNUSABLE = 0, 1, 2
ABOUT = (
    "Finds the cheapest way to do a task. Reads only files: models, evaluations, requirements, a fleet file and a price "
    "book. --check tells CI whether the task still fits after a change to a model or to the demand. Needs no network. "
    "docs/how-to/plan-from-files.md describes the files. Exit status: 0 the task fits, 1 the task does not fit, 2 a file "
    "cannot be used."
)


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `takt plan`."""
    command.add_argument("task", type=Path, nargs="?", help="the task, as TOML")
    command.add_argument("--check", type=Path, metavar="PLAN", help="a plan that -o wrote: does its task still fit?")
    command.add_argument("-o", "--output", help="write the plan here, for --check")
    shape = command.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print every candidate as JSON, with exact numbers")
    shape.add_argument(
        "--markdown", action="store_true", help="print a comment for a pull request (--check always does)"
    )


def plan(options: argparse.Namespace, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> int:
    """Make a plan, or check a saved plan. Raises FileFault, ModelError or WrongOption."""
    if (options.task is None) == (options.check is None):
        raise WrongOption("name a task's file, or a plan with --check: one of the two")
    if options.check is not None:
        if options.output:
            raise WrongOption("-o writes a plan of a task; --check writes none")
        return _check(options, now())
    answer = answer_of(options.task, now=now())
    chosen = answer.chosen
    if options.output and chosen is not None:
        files.keep(options.output, "-o", str(options.task))
        files.write(options.output, plan_write(answer, chosen, Path(options.output)).encode(), "-o")
    words = wording.markdown if options.markdown else wording.text
    sys.stdout.write(_json(answer_json(answer)) if options.json else words(answer))
    if options.output and chosen is None:
        sys.stderr.write("takt: nothing is feasible, so no plan was written\n")
    return FITS if chosen is not None else DOES_NOT


def _check(options: argparse.Namespace, now: datetime) -> int:
    before = plan_read(options.check)
    check = check_of(before, answer_of(before.task, now=now))
    sys.stdout.write(_json(_check_json(check, check.answer)) if options.json else wording.check_markdown(check))
    return FITS if check.fits else DOES_NOT


def _check_json(check: Check, answer: Answer) -> dict[str, Any]:
    rows = saved.figures_of(check)
    return {
        "fits": check.fits,
        "as_planned": check.keeps,
        "changed": list(saved.causes(check)),
        "figures": [
            {"name": one.name, "planned": one.before, "now": one.after, "changed": one.is_changed} for one in rows
        ],
        "now": answer_json(answer),
    }


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1) + "\n"
