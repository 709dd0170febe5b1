"""The controller makes capacity plans on a schedule. It applies their proposals, within limits, if an administrator
allows it to.
"""
