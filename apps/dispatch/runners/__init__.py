"""What executes a block of items: the simulator for processors that are not plugged in here, ONNX Runtime for this CPU."""
