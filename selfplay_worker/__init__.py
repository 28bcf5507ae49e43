"""Self-play worker: one asyncio process that plays many games at once and publishes their records."""
