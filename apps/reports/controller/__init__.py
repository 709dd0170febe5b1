"""The controller: what a capacity plan proposes, on a schedule; applied where an administrator allowed it, within limits."""
