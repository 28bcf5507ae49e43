"""Telemetry: metrics, traces and the request ids that link log lines to calls."""
