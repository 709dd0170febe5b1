"""What earlier releases made, and whether it still loads, runs, bills and verifies."""
