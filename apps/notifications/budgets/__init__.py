"""Budgets and their alerts. A budget only sends alerts; a spend cap blocks new spending."""
