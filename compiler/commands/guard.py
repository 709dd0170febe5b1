"""How a command ends: whatever goes wrong is a line on standard error (one more for each of several reasons) and an exit status,
never a traceback."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from compiler.commands.words import spoken
from compiler.errors import ModelError

MISTYPED = 2  # the command line itself is wrong
INTERRUPTED = 130  # what shells show for Ctrl-C
CLOSED = 141  # and for a command whose reader went away
TOO_LARGE = "there is not enough memory for this; give fewer or smaller sizes"


class WrongOption(ModelError):
    """A command line that nobody can mean: an option that is unknown, or whose value it does not take."""


class Parser(argparse.ArgumentParser):
    """A parser that refuses a command line as everything else is refused: in one line."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """As argparse does, but the command itself says what it does not know, and what may have been meant."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            word = unknown[0].partition("=")[0]
            close = get_close_matches(word, self._option_string_actions, 1) if word.startswith("-") else []
            hint = f"; did you mean {close[0]}?" if close else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        raise WrongOption(f"{message} ({self.prog} --help says what it takes)")

    def begin(self) -> None:
        """Take ``--version``, and show the help when no command is named."""
        self.add_argument(
            "--version", action=_Version, nargs=0, help="print the version, with the digest of the compiler"
        )
        self.set_defaults(run=lambda _: self.print_help(), form="text")


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from compiler.codegen.emit import VERSION
        from compiler.sources import version_name

        sys.stdout.write(f"takt {version_name(VERSION)}\n")
        parser.exit()


Parsed = Callable[[], argparse.Namespace]
Run = Callable[[argparse.Namespace], int | None]


def guarded(parse: Parsed, run: Run, *, prefix: str, failed: int, expected: tuple[type[Exception], ...] = ()) -> int:
    """The exit status of ``run`` with what ``parse`` gives; for what goes wrong ``failed`` (or what the command itself set by
    that name; ``MISTYPED`` for a wrong command line), after one line that begins with ``prefix``.

    ``expected``: further exceptions whose text is meant for the user. What reads the output may close it at any time:
    then nothing is said. Other exceptions are defects, and stay what they are.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed before the command began: what is written goes nowhere
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open to the end
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
            )  # a terminal that cannot show a character still shows the line
    told: tuple[type[Exception], ...] = (ModelError, *expected)
    try:
        chosen = parse()
        failed = getattr(chosen, "failed", failed)
        status = int(run(chosen) or 0)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _silent(INTERRUPTED)
    except BrokenPipeError:
        return _silent(CLOSED)
    except MemoryError:
        return _said(prefix, TOO_LARGE, failed)
    except OSError as error:
        return _said(prefix, _told(error), failed)
    except told as error:
        status = MISTYPED if isinstance(error, WrongOption) else failed
        return _said(prefix, error.told(spoken) if isinstance(error, ModelError) else str(error), status)
    return status


def _told(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {reason}" if error.filename is not None else reason


def _said(prefix: str, message: str, status: int) -> int:
    lines = [" ".join(line.split()) for line in message.split("\n- ")]  # as ``ModelError.told`` lists several reasons
    with suppress(OSError):  # nobody is left to tell
        sys.stderr.write(f"{prefix}: " + "\n  - ".join(lines) + "\n")
        sys.stderr.flush()
    return _silent(status)


def _silent(status: int) -> int:
    """What is still to be written goes nowhere: the interpreter would complain when it ends."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):  # it is no file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status
