"""A program's compile report as tables and drawings."""
