"""Reports over a chosen period, as pages, CSV files and JSON files."""
