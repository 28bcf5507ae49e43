"""Gatekeeper: decides which model version is the champion, and keeps the rating ladder; see `gatekeeper.service`."""
