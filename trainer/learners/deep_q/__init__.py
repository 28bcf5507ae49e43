"""Learners `dqn` and `deep_sarsa`: a small convolutional network of action values, learned from recent transitions."""
