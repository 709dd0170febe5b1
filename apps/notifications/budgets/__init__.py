"""Budgets and budget alerts."""
