"""Strength of players: matches, tournaments, ladders, ratings, accuracy and their charts."""
