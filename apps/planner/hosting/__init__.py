"""Read files about rented and owned machines outside Takt, and compute their costs. Pure Python, no Django."""
