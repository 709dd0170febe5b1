"""Read and check the arrays that customers send, and store results. The arrays are a job's inputs or outputs, or a data
set.

The package uses only NumPy and bytes, not Django.
"""

from apps.registry.feeds.check import (
    BYTES_MAX,
    ITEMS_MAX,
    InputError,
    TensorType,
    items_check,
    items_count_check,
    items_match,
    seeded_items,
)
from apps.registry.feeds.joined import Joined
from apps.registry.feeds.pack import Limits, arrays_pack, arrays_read, arrays_read_json, arrays_unpack

__all__ = [
    "BYTES_MAX",
    "ITEMS_MAX",
    "InputError",
    "Joined",
    "Limits",
    "TensorType",
    "arrays_pack",
    "arrays_read",
    "arrays_read_json",
    "arrays_unpack",
    "items_check",
    "items_count_check",
    "items_match",
    "seeded_items",
]
