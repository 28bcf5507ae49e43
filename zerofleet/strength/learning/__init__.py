"""Measurement of a network in training: judges, their positions, and curves over several seeds."""
