"""Logs: structlog events with fields, on standard error.

    log = structlog.get_logger()
    log.info("game.finished", game_uid=uid, plies=42, model=version)

JSON lines in containers and files, coloured columns on a terminal. Lines of other libraries pass through the same
renderer. Never log tensors, tokens or whole records.

Field names are the same everywhere: `game_uid` of a game, `version` of a model, `request_id` and `rpc` during a call,
`trace_id` and `span_id` inside a recorded span.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

from zerofleet.service.settings import LogFormat
from zerofleet.telemetry import request_ids, tracing

__all__ = ["configure", "placed"]


def configure(level: str, format: LogFormat, service: str) -> None:
    """Send all log lines of this process to standard error, each with the field `service`.

    `format` auto means console on a terminal and json elsewhere. Call it once per process, before the first line.
    """
    as_json = format == "json" or (format == "auto" and not sys.stderr.isatty())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _naming(service),
        placed,
    ]
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=_rendering(as_json)))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for chatty in ("asyncio", "numba", "grpc"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))


def placed(_logger: Any, _method: str, event: Any) -> Any:
    """Add the ids of the current call and recorded span to a line, if any."""
    return {**event, **request_ids.log_fields(), **tracing.log_fields()}


def _naming(service: str) -> Any:
    def add(_logger: Any, _method: str, event: dict[str, Any]) -> dict[str, Any]:
        return {"service": service, **event}

    return add


def _rendering(as_json: bool) -> list[Any]:
    strip = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    if as_json:
        return [strip, structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    plain = structlog.dev.plain_traceback  # the coloured one prints local variables, tokens and tensors included
    return [strip, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)]
