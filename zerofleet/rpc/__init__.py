"""Calls between processes over gRPC: channels, errors, interceptors, health, security, back-off and the two clients."""
