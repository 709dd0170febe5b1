"""Inspect the bytes of a model file. The package runs in a limited child process, never in a server process."""
