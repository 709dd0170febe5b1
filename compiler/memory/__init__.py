"""Addresses of buffers by their live ranges."""
