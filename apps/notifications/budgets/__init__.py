"""Budgets and their alerts. A budget tells, a spend cap stops."""
