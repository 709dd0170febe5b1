"""What an editor shows of the public names: all of them, with types and a docstring that a user can read."""

import inspect
import re
from pathlib import Path

import pytest

import compiler
import takt

ROW = re.compile(r"\((?:[A-Z]\d{1,2}(?:, )?)+\)")  # a requirement's number, which says nothing to a user


def documented(value):
    """The docstrings of a name, and of a class those of its public members written here."""
    yield "", value.__doc__
    for name, member in vars(value).items() if inspect.isclass(value) else ():
        inner = getattr(member, "__func__", None) or getattr(member, "fget", None) or getattr(member, "func", None)
        if not name.startswith("_") and inspect.isfunction(inner or member):
            yield name, (inner or member).__doc__


@pytest.mark.parametrize("package", [compiler, takt], ids=lambda p: p.__name__)
def test_public_names_are_typed_listed_and_documented(package):
    assert (Path(package.__file__).parent / "py.typed").is_file()
    assert set(package.__all__) <= set(dir(package))
    for name in package.__all__:
        for member, text in documented(getattr(package, name)):
            assert text or (name, member) in {("Counters", "to_json"), ("Resources", "to_json")}, f"{name}.{member}"
            assert not ROW.search(text or ""), f"{name}.{member}"


def test_dir_lists_the_public_names_alone():
    assert dir(compiler) == sorted(compiler.__all__)
