"""Learner `sarsa_lambda`: a linear evaluation of Chinese Checkers on the rhombus, learned from the moves of whole games."""
