"""Field types shared by the API schemas."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator

from apps.pricing.rating import decimal_text


def _text(value: Any) -> Any:
    return decimal_text(value) if isinstance(value, Decimal) else value


Exact = Annotated[str, BeforeValidator(_text)]
"""An exact amount as text."""
