"""Start cycles of tiles: list scheduling for the latency, modulo scheduling for the initiation interval."""
