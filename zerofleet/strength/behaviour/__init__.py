"""Behaviour of players in finished games: the tables that the theses print.

`sources` yields finished games, from the game log of a run or from play; a module for each table counts them; `catalogue` has
the tables by name; `tables` holds the result, as CSV and JSON; `chart` draws it.
"""
