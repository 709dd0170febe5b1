"""Capacity plans: the number of devices that would suffice for the sold work if programs shared devices."""
