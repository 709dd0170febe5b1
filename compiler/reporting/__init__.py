"""Everything that is shown of a program, computed from its bytes and its target."""

from compiler.reporting.resources import load_of, resources_of
from compiler.reporting.rows import COLUMNS, per_operation, totals
from compiler.reporting.timeline import chrome_trace, scheduled
from compiler.reporting.whole import report

__all__ = ["COLUMNS", "chrome_trace", "load_of", "per_operation", "report", "resources_of", "scheduled", "totals"]
