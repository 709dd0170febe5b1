"""Processor versions as data: one TOML file each, and the loader that turns it into a machine model.

Every figure of a file is ``{ value = ..., source = "..." }``; a source says where the figure was published, or that it was
chosen, or that it is an extension of the published processor.
"""

from compiler.targets.loader import Target, load, names, parse

__all__ = ["Target", "load", "names", "parse"]
