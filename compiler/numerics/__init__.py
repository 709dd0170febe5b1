"""Arithmetic that gives the same bits on every machine: one meaning for the compiler, the interpreter and the simulator."""
