"""Template filters that format the sizes of programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django import template

from apps.compilation.dimensions import sizes_text
from apps.compilation.models import CompileJob, Program
from apps.compilation.options import options_text
from apps.compilation.selectors import dimension_names
from apps.registry.models import ModelVersion

register = template.Library()


@register.filter
def sizes(dims: Mapping[str, int | Sequence[int]], version: ModelVersion) -> str:
    """Return sizes as text, such as "batch 1, height 224, width 224"."""
    return sizes_text(dims, dimension_names(version))


@register.filter
def compiled_as(row: Program | CompileJob, version: ModelVersion) -> str:
    """Return the sizes and options of a program or a compile, such as "batch 1, sequence 16, context 256"."""
    return ", ".join(filter(None, (sizes(row.dims, version), options_text(row.options))))
