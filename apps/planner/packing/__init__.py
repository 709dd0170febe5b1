"""Pack programs onto devices at the lowest cost, with a proven lower bound for every plan. Pure, exact arithmetic.

>>> device = DeviceType("d", (10, 10, 10, 10))
>>> programs = (ProgramType("a", 3, {"d": (6, 1, 1, 1)}), ProgramType("b", 3, {"d": (4, 1, 1, 1)}))
>>> made = plan(Instance((device,), programs))
>>> made.cost, made.bound.value
(3, 3)
"""

from apps.planner.packing.checking import faults
from apps.planner.packing.greedy import dot_product_fit, first_fit, first_fit_decreasing
from apps.planner.packing.instances import (
    DIMENSIONS,
    Bound,
    DeviceType,
    Instance,
    Packing,
    Pattern,
    Plan,
    ProgramType,
)
from apps.planner.packing.planning import plan
from apps.planner.packing.power import Draw, Effect, Setting, effect, most_served, set_to, with_settings

__all__ = [
    "DIMENSIONS",
    "Bound",
    "DeviceType",
    "Draw",
    "Effect",
    "Instance",
    "Packing",
    "Pattern",
    "Plan",
    "ProgramType",
    "Setting",
    "dot_product_fit",
    "effect",
    "faults",
    "first_fit",
    "first_fit_decreasing",
    "most_served",
    "plan",
    "set_to",
    "with_settings",
]
