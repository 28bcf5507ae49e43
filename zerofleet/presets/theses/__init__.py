"""Theses: their experiments as files of settings, and the stages that reproduce them."""
