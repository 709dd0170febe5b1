"""The controller, which makes scheduled capacity plans and applies their proposals within limits."""
