"""Reports over a chosen period. The page, CSV and JSON of a report read the same selector."""
