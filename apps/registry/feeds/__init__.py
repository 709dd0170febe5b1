"""Read and check the arrays that customers send, and store results. The package does not use Django."""

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
