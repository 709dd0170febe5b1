"""From a lowered graph to instructions with start cycles: places, tiles, order, memory."""
