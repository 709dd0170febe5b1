"""Executes a program from its bytes: results, counters, and a refusal of everything that a processor must not do.

It shares the instruction table with the compiler and nothing else: it knows no schedule, no tiling and no memory plan.
"""

from compiler.simulator.fault import SimulationError
from compiler.simulator.run import simulate
from compiler.simulator.session import Session
from compiler.simulator.trace import Event, chrome_trace, timeline

__all__ = ["Event", "Session", "SimulationError", "chrome_trace", "simulate", "timeline"]
