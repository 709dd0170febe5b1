"""Runners that execute a block of items: the simulator for deterministic processors, and ONNX Runtime for host pools."""
