"""Agents that search at most one ply."""
