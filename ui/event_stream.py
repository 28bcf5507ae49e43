"""Server-sent events: a name and a value each."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator

import structlog
from pydantic import BaseModel
from starlette.responses import StreamingResponse

from games.errors import GameError
from ui.endpoints import Fault
from ui.faults import shown_fault
from zerofleet.errors import ZerofleetError

__all__ = ["LOOK_EVERY_S", "Events", "streamed"]

LOOK_EVERY_S = 0.25
"""Time between two looks at a search in progress."""

Events = AsyncGenerator[tuple[str, BaseModel]]
"""Names and values of events."""

_RETRY_MS = 400

log = structlog.get_logger()


def streamed(events: Events, *, retry_ms: int = _RETRY_MS) -> StreamingResponse:
    """Return the answer that sends the events; an error becomes a last event, `fault`, which ends the wait of a page.

    A browser asks again `retry_ms` after the end, unless its page has closed the stream.
    """
    lines = _lines(events, retry_ms)
    return StreamingResponse(lines, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


async def _lines(events: Events, retry_ms: int) -> AsyncIterator[str]:
    yield f"retry: {retry_ms}\n\n"
    async with contextlib.aclosing(events):  # a browser that leaves ends the source at once
        try:
            async for name, value in events:
                yield f"event: {name}\ndata: {value.model_dump_json()}\n\n"
        except (ZerofleetError, GameError, OSError) as error:
            yield _fault(str(error))
        except Exception as error:
            log.exception("events.failed")
            yield _fault(shown_fault(error))


def _fault(text: str) -> str:
    return f"event: fault\ndata: {Fault(error=text).model_dump_json()}\n\n"
