"""From a lowered graph to tiles: where values lie, how loops are cut, which operand is stationary, one instruction per tile."""
