"""Depth-first agents: alpha-beta, max^n and iterative deepening."""
