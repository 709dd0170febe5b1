"""Reports over a chosen period: each a table that page, CSV and JSON read from the same selector."""
