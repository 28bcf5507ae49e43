"""Agents that look at most one move ahead."""
