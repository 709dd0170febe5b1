"""The controller makes capacity plans on a schedule and applies their proposals where an administrator allows it,
within limits.
"""
