"""The representation: graph, types, primitives, text form, verifier, interpreter."""
