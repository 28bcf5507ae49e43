"""Benchmarks behind `zerofleet bench`."""
