"""Accuracy of other AlphaZero programs at Connect Four after the same processor time; see README.md beside this file."""
