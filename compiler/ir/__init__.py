"""The representation: graph, types, primitives, text form, verifier, interpreter.

The words in which the other rooms speak of a graph are imported from here: its nodes, accesses, types, and expressions as
steps or as terms. What works on whole graphs (builder, interpreter, text, verifier) has modules of its own.
"""

from compiler.ir.access import Access
from compiler.ir.expr import FREE, REDUCED, Expr, Step, identity, spliced, straight
