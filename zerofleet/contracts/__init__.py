"""Contracts between services: names, encodings, manifests and their checks, promotions, records, messages."""
