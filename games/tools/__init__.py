"""Counts and transcripts of games: perft and playthroughs."""
