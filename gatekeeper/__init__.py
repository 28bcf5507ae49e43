"""Gatekeeper: selects the champion among model versions and maintains the rating ladder; see `gatekeeper.service`."""
