"""A job's inputs and outputs as arrays of items: reading what a customer sends, checking it, and storing results.

Pure: NumPy and bytes, no Django.
"""

from apps.dispatch.feeds.check import InputError, TensorType, items_check, items_match, seeded_items
from apps.dispatch.feeds.pack import Limits, arrays_pack, arrays_read, arrays_read_json, arrays_unpack

__all__ = [
    "InputError",
    "Limits",
    "TensorType",
    "arrays_pack",
    "arrays_read",
    "arrays_read_json",
    "arrays_unpack",
    "items_check",
    "items_match",
    "seeded_items",
]
