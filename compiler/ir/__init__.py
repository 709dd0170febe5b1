"""The representation: graph, types, primitives, text form, verifier, interpreter.

The words in which the other rooms speak of a graph are imported from here: its nodes, accesses, types, and expressions as
steps or as terms. What works on whole graphs (builder, interpreter, text, verifier) has modules of its own.
"""

from compiler.ir.access import Access
from compiler.ir.expr import FREE, REDUCED, Expr, Step, identity, spliced, straight
from compiler.ir.graph import (
    Compute,
    Gather,
    Graph,
    Guard,
    Join,
    Merge,
    Node,
    Operand,
    Part,
    Reshape,
    Scatter,
    Sort,
    State,
    View,
    operands_of,
    output_dtype,
    readers_of,
    reads_of,
    sources_of,
)
from compiler.ir.terms import Term, arg, const, exchanged, expression, index, select, term_of
from compiler.ir.types import DType, TensorType

__all__ = [
    "FREE",
    "REDUCED",
    "Access",
    "Compute",
    "DType",
    "Expr",
    "Gather",
    "Graph",
    "Guard",
    "Join",
    "Merge",
    "Node",
    "Operand",
    "Part",
    "Reshape",
    "Scatter",
    "Sort",
    "State",
    "Step",
    "TensorType",
    "Term",
    "View",
    "arg",
    "const",
    "exchanged",
    "expression",
    "identity",
    "index",
    "operands_of",
    "output_dtype",
    "readers_of",
    "reads_of",
    "select",
    "sources_of",
    "spliced",
    "straight",
    "term_of",
]
