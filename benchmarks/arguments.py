"""What the commands of this folder take: told by ``--help``, and refused in a sentence before anything runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Sequence


def parser(name: str, about: str) -> argparse.ArgumentParser:
    """The command line of ``python -m benchmarks.NAME``; ``about``: the module's own text."""
    form = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=about, formatter_class=form)


def counts(name: str, about: str, arguments: Sequence[str], **defaults: int) -> tuple[int, ...]:
    """Whole numbers in the order of ``defaults``, which are the value of each that is not given."""
    command = parser(name, about)
    for what, value in defaults.items():
        command.add_argument(what, nargs="?", type=whole, default=value, help=f"default: {value}")
    given = command.parse_args(list(arguments))
    return tuple(getattr(given, what) for what in defaults)


def names(name: str, about: str, arguments: Sequence[str], known: Collection[str], what: str) -> list[str]:
    """Those that are given, all of them known; none given is an empty list."""
    command = parser(name, about)
    command.add_argument(what, nargs="*", type=one_of(known), help=f"of {', '.join(known)}")
    given: list[str] = getattr(command.parse_args(list(arguments)), what)
    return given


def whole(text: str) -> int:
    """A whole number of at least 0."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"it is a whole number of at least 0, not {text!r}")
    return int(text)


def one_of(known: Collection[str]) -> Callable[[str], str]:
    """Takes a known name (argparse's own choices want the empty list among them where names may be left out)."""

    def read(text: str) -> str:
        if text not in known:
            raise argparse.ArgumentTypeError(f"there is no {text!r}; choose among {', '.join(known)}")
        return text

    return read
