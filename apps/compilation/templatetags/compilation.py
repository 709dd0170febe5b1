"""Template filters that format the sizes of programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django import template

from apps.compilation.dimensions import sizes_text
from apps.compilation.selectors import dimension_names
from apps.registry.models import ModelVersion

register = template.Library()


@register.filter
def sizes(dims: Mapping[str, int | Sequence[int]], version: ModelVersion) -> str:
    """Return sizes as text, such as "batch 1, height 224, width 224"."""
    return sizes_text(dims, dimension_names(version))
