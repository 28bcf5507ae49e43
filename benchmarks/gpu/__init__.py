"""Measurements on a GPU: README.md in this folder."""
