"""gRPC between processes: channels, errors, interceptors, health, security, back-off and the two clients."""
