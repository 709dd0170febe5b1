"""The fleet as one document: sites, custom processors, pools, devices and costs. No Django, database or clock.

`parse` reads a TOML file, `check` reads plain data, `write` returns a TOML text, and `difference` compares two
documents.

>>> document = parse('format = "takt-fleet/1"\\n[sites.home]\\nname = "Home"\\ntime_zone = "UTC"', known={})
>>> parse(write(document), known={}) == document
True
"""

from apps.fleet.document.difference import Change, Difference, difference
from apps.fleet.document.model import STATES, Cost, Document, Pool, Site, natural
from apps.fleet.document.reading import DEVICES_MAX, LARGEST, DocumentError, Fault, check, parse
from apps.fleet.document.writing import write

__all__ = [
    "DEVICES_MAX",
    "LARGEST",
    "STATES",
    "Change",
    "Cost",
    "Difference",
    "Document",
    "DocumentError",
    "Fault",
    "Pool",
    "Site",
    "check",
    "difference",
    "natural",
    "parse",
    "write",
]
