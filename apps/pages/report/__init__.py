"""A program's compile report as tables and drawings. Pure functions of the report."""
