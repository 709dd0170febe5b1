"""Bring your own processor: micro-programs for every instruction, measured cycles beside predicted ones, and the figure
of the processor's file that explains a difference."""

from compiler.probing.check import Finding, Verdict, check
from compiler.probing.costly import advice
from compiler.probing.micro import MicroProgram, described
from compiler.probing.sweeps import micro_programs
from compiler.probing.trace import Row, predicted_rows, read_trace, write_trace

__all__ = [
    "Finding",
    "MicroProgram",
    "Row",
    "Verdict",
    "advice",
    "check",
    "described",
    "micro_programs",
    "predicted_rows",
    "read_trace",
    "write_trace",
]
