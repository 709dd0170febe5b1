"""The instruction set: one table of instructions, their encoding, and the container that holds a program."""
