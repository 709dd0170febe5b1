"""Hosting outside Takt: read files about rented and owned machines, and compute their costs.

Pure Python, no Django. `measurement` reads the files of `takt measure`. `pricelist` reads prices of rented machines in
three formats. `costs` compares exact costs by volume. `names` matches measurements, prices and machines.
"""
