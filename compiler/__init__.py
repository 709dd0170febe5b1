"""A compiler whose figures are proven: an ONNX model becomes a program with a known cost to the cycle."""
