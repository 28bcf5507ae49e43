"""Who may call what: tokens with roles, the interceptor that asks for them, and the limits of every gRPC server."""
