"""Shell completion, generated from the command line itself: for bash, for zsh by its own reading of bash, and for fish."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from compiler import targets
from compiler.precision import PRECISIONS
from compiler.scheduling.initiation_interval import OBJECTIVES

SHELLS = ("bash", "zsh", "fish")
ABOUT = (
    "Prints what a shell needs to complete this command, such as: source <(takt completion bash). For fish: "
    "takt completion fish | source. Put the line into the shell's start file to keep it."
)


@dataclass(frozen=True)
class Option:
    """One option: its spellings, whether a value follows, and the values that are known beforehand."""

    names: tuple[str, ...]
    valued: bool
    values: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Place:
    """A command by the words that lead to it: the commands below it with what they say, and its options."""

    words: tuple[str, ...]
    below: tuple[tuple[str, str], ...]
    options: tuple[Option, ...]
    values: tuple[str, ...]  # that a positional argument may have

    @property
    def path(self) -> str:
        return "".join(f" {word}" for word in self.words)


def add_command(commands: Any, parser: Callable[[], argparse.ArgumentParser], program: str) -> None:
    """Add ``completion`` to the commands of ``parser``, which is started as ``program``."""
    command = commands.add_parser("completion", help="what a shell needs to complete this command", description=ABOUT)
    command.add_argument("shell", choices=SHELLS)
    command.set_defaults(run=lambda chosen: _run(chosen.shell, parser(), program))


def _run(shell: str, parser: argparse.ArgumentParser, program: str) -> int:
    sys.stdout.write(script(shell, parser, program))
    return 0


def script(shell: str, parser: argparse.ArgumentParser, program: str) -> str:
    """The completion of a command line for one of ``SHELLS``. ``program``: its words, such as ``python -m compiler``."""
    places = list(_places(parser, ()))
    if shell == "fish":
        return "\n".join(_fish(places, program.split())) + "\n"
    start = [
        "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }",
        "autoload -Uz bashcompinit && bashcompinit",
    ]
    return "\n".join([*(start if shell == "zsh" else []), *_bash(places, program.split())]) + "\n"


def _places(parser: argparse.ArgumentParser, words: tuple[str, ...]) -> Iterator[Place]:
    options, below, values = [], [], []
    deeper: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            deeper = dict(action.choices)
            below = [(choice.dest, choice.help or "") for choice in action._choices_actions]
        elif action.option_strings:
            options.append(_option(action))
        else:
            values += list(action.choices or ())
    yield Place(words, tuple(below), tuple(options), tuple(values))
    for name, inner in deeper.items():
        yield from _places(inner, (*words, name))


def _option(action: argparse.Action) -> Option:
    known = {"--target": tuple(targets.names()), "--precision": PRECISIONS, "--objective": OBJECTIVES}
    values = tuple(action.choices) if action.choices else known.get(action.option_strings[-1], ())
    return Option(tuple(action.option_strings), action.nargs != 0, tuple(map(str, values)), action.help or "")


def _bash(places: list[Place], program: list[str]) -> Iterator[str]:
    """A function and the commands that it completes; only what zsh's ``bashcompinit`` understands too."""
    name = "_" + "_".join(word.strip("-") for word in program)
    yield f"{name}() {{"
    yield "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} at='' known='' n"
    yield "  COMPREPLY=()"
    for n, word in enumerate(program[1:], 1):
        yield f"  [[ ${{COMP_WORDS[{n}]}} == {word} ]] || return 0"
    yield f"  for ((n = {len(program)}; n < COMP_CWORD; n++)); do"
    yield '    case "$at ${COMP_WORDS[n]}" in'
    yield f'      {_either(place.path for place in places if place.words)}) at="$at ${{COMP_WORDS[n]}}";;'
    yield "    esac"
    yield "  done"
    yield '  case "$at $prev" in'
    for place in places:
        yield from (_bash_value(place, option) for option in place.options if option.valued)
    yield "  esac"
    yield '  case "$at" in'
    yield from map(_bash_words, places)
    yield "  esac"
    yield '  COMPREPLY=($(compgen -W "$known" -- "$cur"))'
    yield "}"
    yield f"complete -o default -o bashdefault -F {name} {' '.join(_commands(program))}"


def _bash_value(place: Place, option: Option) -> str:
    """The case of an option's value: completed where its values are known."""
    values = " ".join(option.values)
    chosen = f'COMPREPLY=($(compgen -W "{values}" -- "$cur")); ' if values else ""
    return f"    {_either(f'{place.path} {name}' for name in option.names)}) {chosen}return 0;;"


def _bash_words(place: Place) -> str:
    """The case of a command: its options behind a hyphen, else what may follow it."""
    names = " ".join(name for option in place.options for name in option.names)
    words = " ".join((*(word for word, _ in place.below), *place.values))
    return f'    "{place.path}") [[ $cur == -* ]] && known="{names}" || known="{words}";;'


def _commands(program: list[str]) -> list[str]:
    """The names under which the program's first word is called."""
    return [program[0], "python3"] if program[0] == "python" else [program[0]]


def _either(texts: Iterator[str]) -> str:
    return "|".join(f'"{text}"' for text in texts)


def _fish(places: list[Place], program: list[str]) -> Iterator[str]:
    """A function that knows where the command line is, and one line for each thing that may follow there."""
    name = "__" + "_".join(word.strip("-") for word in program) + "_at"
    yield f"function {name}"
    yield "    set -l words (commandline -opc)"
    for n, word in enumerate(program[1:], 2):
        yield f"    test \"$words[{n}]\" = '{word}'; or return 1"
    yield "    set -l at ''"
    yield f"    for word in $words[{len(program) + 1}..-1]"
    yield '        switch "$at $word"'
    yield f"            case {' '.join(_quoted(place.path) for place in places if place.words)}"
    yield '                set at "$at $word"'
    yield "        end"
    yield "    end"
    yield '    test "$at" = "$argv[1]"'
    yield "end"
    for command in _commands(program):
        for place in places:
            head = f"complete -c {command} -n {_quoted(f'{name} {_quoted(place.path)}')}"
            for word, text in place.below:
                yield f"{head} -f -a {word} -d {_quoted(text)}"
            for value in place.values:
                yield f"{head} -f -a {value}"
            for option in place.options:
                yield f"{head} {_fish_option(option)}"


def _fish_option(option: Option) -> str:
    spelled = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    if option.values:
        spelled.append(f"-x -a {_quoted(' '.join(option.values))}")
    elif option.valued:
        spelled.append("-r")
    return f"{' '.join(spelled)} -d {_quoted(option.text)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
