"""`takt measure`: measures a model on this machine and writes a dated file."""
