"""Helper for tests that wait until a version is evaluated."""


async def note_version(event, version, wanted):
    """Set the event if the wanted version is evaluated; for `on_evaluate` of the inference server."""
    if version == wanted:
        event.set()
