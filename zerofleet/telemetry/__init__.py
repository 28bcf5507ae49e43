"""Observations of a process: metrics, traces and the ids that tie log lines to calls."""
