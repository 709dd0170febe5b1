"""Inspect the bytes of a model file. This runs in a limited child process, never in a server process."""
