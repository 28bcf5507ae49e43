"""Learner `combined`: Q-learning among the best moves by a frozen network of the learner `outcome`."""
