"""Places where a task could run besides the pools here: files about them, read and checked, and what they cost.

Pure Python, no Django. `measurement`: what `takt measure` wrote; `pricelist`: prices of rented machines, in three formats;
`costs`: exact comparison by volume; `names`: how a measurement, a price and a machine of one's own are told to be alike.
"""
