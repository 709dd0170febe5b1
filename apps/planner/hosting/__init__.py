"""Hosting outside Takt: read files about rented and owned machines, and compute their costs.

Pure Python, no Django. `measurement`: files written by `takt measure`; `pricelist`: prices of rented machines in three
formats; `costs`: exact comparison by volume; `names`: matching of measurements, prices and machines.
"""
