"""Learner `td_lambda`: the value of afterstates, learned by temporal differences from games that are used once and in order."""
