"""Agents made for one game."""
