"""Inspect a model file from its bytes alone. Pure; runs in a limited child process, never in a server process."""
