"""Processor versions as data: one TOML file each, and the loader that turns it into a machine model.

Every figure of a file is ``{ value = ..., source = "..." }``; a source says where the figure was published, or that it was
chosen, or that it is an extension of the published processor. A processor is a file: whoever has one adds it by naming it.
"""

from compiler.targets.catalogue import find, is_path, load, names, read, register, resolve, ships, template, text
from compiler.targets.loader import NAME, Target, parse

__all__ = [
    "NAME",
    "Target",
    "find",
    "is_path",
    "load",
    "names",
    "parse",
    "read",
    "register",
    "resolve",
    "ships",
    "template",
    "text",
]
