"""Agents that ask a network."""
