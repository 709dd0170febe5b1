"""Reports over a chosen period. The page, the CSV file and the JSON file of a report have the same source."""
