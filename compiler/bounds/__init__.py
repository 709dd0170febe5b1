"""Proven lower bounds on the cycles of any program for a graph, from the lowered graph and the processor alone (T3).

Nothing here knows how a program is tiled or scheduled. A bound is a counting argument: what every legal program has to do, on
which units, after what and before what.
"""

from __future__ import annotations

from compiler.bounds.bound import Bounds, bounds

__all__ = ["Bounds", "bounds"]
