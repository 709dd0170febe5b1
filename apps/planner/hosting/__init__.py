"""Hosting outside Takt: read files about rented and own machines, and compute what they cost.

Pure Python, no Django. `measurement`: files of `takt measure`; `pricelist`: prices of rented machines in three formats;
`costs`: exact comparison by volume; `names`: matching of measurements, prices and machines.
"""
