"""Access control of the gRPC servers: tokens with roles, their interceptor, TLS and limits."""
