"""Takt's API from Python: `from takt import Client`. Needs the extra `client` (`pip install takt[client]`)."""

from takt.client import Client
from takt.errors import Failed, Refused, Unreachable
from takt.records import (
    CompileJob,
    Contract,
    ContractLine,
    Ending,
    Invoice,
    Job,
    Me,
    Pool,
    Program,
    Quote,
    SpendCap,
    Version,
)

__all__ = [
    "Client",
    "CompileJob",
    "Contract",
    "ContractLine",
    "Ending",
    "Failed",
    "Invoice",
    "Job",
    "Me",
    "Pool",
    "Program",
    "Quote",
    "Refused",
    "SpendCap",
    "Unreachable",
    "Version",
]
