"""Budgets and their alerts. A budget sends alerts only; a spend cap blocks new spending."""
