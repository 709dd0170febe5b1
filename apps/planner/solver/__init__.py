"""Find the programs that best meet a task's requirements. Pure, exact arithmetic."""

from apps.planner.solver.answers import Answers, Evaluated
from apps.planner.solver.search import solve
from apps.planner.solver.types import (
    OBJECTIVES,
    Candidate,
    Change,
    Demand,
    Placed,
    Requirements,
    Solution,
    Use,
    Variant,
)

__all__ = [
    "OBJECTIVES",
    "Answers",
    "Candidate",
    "Change",
    "Demand",
    "Evaluated",
    "Placed",
    "Requirements",
    "Solution",
    "Use",
    "Variant",
    "solve",
]
