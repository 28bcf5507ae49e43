"""Positions a second through real workers and servers whose device computes nothing: `python -m benchmarks.stack`."""
