"""Self-play worker: one asyncio process that plays many games concurrently and publishes their records."""
