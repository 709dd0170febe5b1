"""Completion of both commands: run by bash itself, and nothing left out for the other shells."""

import argparse
import subprocess

import pytest

from apps.cli.main import main as takt
from apps.cli.main import parser as takt_parser
from compiler import targets
from compiler.__main__ import main, parser
from compiler.commands.completion import SHELLS

COMMANDS = {"python -m compiler": (main, parser), "takt": (takt, takt_parser)}


def script(program, shell, capsys):
    assert COMMANDS[program][0](["completion", shell]) == 0
    return capsys.readouterr().out


def completed(program, line, capsys):
    """What bash offers for the last word of a line."""
    words = [*program.split(), *line.split(" ")]
    function = "_" + "_".join(word.strip("-") for word in program.split())
    asked = f'COMP_WORDS=({" ".join(repr(w) for w in words)}); COMP_CWORD={len(words) - 1}; {function}; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        ["bash", "-c", script(program, "bash", capsys) + asked], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("program", "line", "offered"),
    [
        ("python -m compiler", "re", ["report"]),
        ("python -m compiler", "targets ", ["list", "new", "check", "compare"]),
        ("python -m compiler", "diff a b --format ", ["text", "markdown", "json"]),
        ("python -m compiler", "compile --pre", ["--precision"]),
        ("python -m compiler", "compile --target l", ["lpu", "lpu2"]),
        ("python -m compiler", "report mod", []),  # the shell's own: files
        ("takt", "ver", ["verify"]),
        ("takt", "target ", ["list", "new", "check", "compare"]),
        ("takt", "target compare --precision ", ["float32", "float16", "bfloat16", "int8"]),
        ("takt", "completion ", list(SHELLS)),
        ("takt", "report --book ", []),
    ],
)
def test_bash_offers(program, line, offered, capsys):
    assert completed(program, line, capsys) == offered


def test_another_python_program_is_left_alone(capsys):
    text = script("python -m compiler", "bash", capsys)
    asked = 'COMP_WORDS=(python -m pytest re); COMP_CWORD=3; _python_m_compiler; echo "<${COMPREPLY[*]}>"'
    assert subprocess.run(["bash", "-c", text + asked], capture_output=True, text=True, check=True).stdout == "<>\n"


def everything(parser):
    """Every command and every option below a parser."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield name
                yield from everything(inner)
        yield from action.option_strings


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("program", COMMANDS)
def test_every_command_and_option_is_there(program, shell, capsys):
    text = script(program, shell, capsys)
    wanted = {*everything(COMMANDS[program][1]()), *targets.names()}
    if shell == "fish":  # it writes options without their dashes
        wanted = {f"-l {w[2:]}" if w.startswith("--") else f"-s {w[1:]}" if w.startswith("-") else w for w in wanted}
    assert {w for w in wanted if w not in text} == set()
