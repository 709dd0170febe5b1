"""What a model may ask for at most: hostile files end in a sentence, not in a swamped machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds of one load; all are far above what the processors offered can hold."""

    file_bytes: int = (1 << 31) - 1  # protobuf's own limit; side files come on top
    tensor_bytes: int = 1 << 31
    constant_bytes: int = 1 << 34  # of all constants, those in side files too
    model_nodes: int = 60_000  # operations in the file
    graph_nodes: int = 60_000  # operations with functions and loops put in, and primitives after lowering
    depth: int = 24  # functions and subgraphs inside each other
    parameter: int = 1 << 24  # a kernel's size, stride, pad or dilation
    text: int = 4096  # characters of a name


DEFAULT = Limits()
