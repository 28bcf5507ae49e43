"""Learner `outcome`: the result of a game, learned from the positions after its moves by supervision."""
