"""Life of a service process: settings, start, readiness, drain, logs and certificates."""
