"""Whole numbers as the API takes them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator


def _no_truth_value(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("true and false are no numbers")
    return value


Whole = Annotated[int, BeforeValidator(_no_truth_value)]  # Python counts True as 1, JSON does not
