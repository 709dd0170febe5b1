"""`takt measure`: how long a model takes on the machine at hand, as a dated file."""
