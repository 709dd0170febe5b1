"""`takt measure`: measures a model on this machine."""
