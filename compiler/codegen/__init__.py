"""From a schedule to the bytes of a binary."""
