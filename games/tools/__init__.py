"""Verification tools for games: perft and playthroughs."""
