"""Capacity plans: how many devices would be enough for what is sold, if programs shared devices."""
