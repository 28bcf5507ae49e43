"""Usual ports of servers for people."""

from __future__ import annotations

__all__ = ["PAGE_PORT"]

PAGE_PORT = 8765
"""Port of the web application."""
