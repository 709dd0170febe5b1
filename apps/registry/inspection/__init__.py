"""Inspects a model file from its bytes alone. Pure; runs in a limited child, never in a server process."""
