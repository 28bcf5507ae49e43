"""Agents that evaluate positions with a network."""
