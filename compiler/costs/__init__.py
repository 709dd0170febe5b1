"""What an operation takes of each kind of unit, before it is cut into tiles: what passes, tiling and bounds all ask.

``contraction``: a contraction as a batch of matrix products, and how products share a pass of the planes. ``cycles``:
arithmetic stages, which are exact, and estimates of cycles, which bounds must not use.
"""

from compiler.costs.contraction import (
    Roles,
    blocks_that_fit,
    factor_types,
    fits_planes,
    has_plane_types,
    loops_used,
    plane_tile,
    product_shape,
    products_per_pass,
    roles,
)
from compiler.costs.cycles import (
    alu_passes,
    epilogue_stages,
    full_plane_cycles,
    input_cycles,
    link_cycles,
    plane_cycles,
    unit_demand,
    vector_stages,
)

__all__ = [
    "Roles",
    "alu_passes",
    "blocks_that_fit",
    "epilogue_stages",
    "factor_types",
    "fits_planes",
    "full_plane_cycles",
    "has_plane_types",
    "input_cycles",
    "link_cycles",
    "loops_used",
    "plane_cycles",
    "plane_tile",
    "product_shape",
    "products_per_pass",
    "roles",
    "unit_demand",
    "vector_stages",
]
