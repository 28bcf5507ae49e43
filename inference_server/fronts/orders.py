"""Settings of a front end, sent by the device process: secrets stand in no command line and no environment."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from inference_server.settings import ServerSettings
from zerofleet.rpc.health import MAX_WATCHES
from zerofleet.rpc.reflection import ReflectionChoice
from zerofleet.rpc.security.credentials import plain
from zerofleet.rpc.security.tls import Tls
from zerofleet.service.settings import LogFormat

__all__ = ["Orders"]


@dataclass(frozen=True, slots=True)
class Orders:
    """Fields of the frame ORDERS. Bounds are those of one front end: equal parts of the server's."""

    index: int
    """Number of the front end, from 1."""
    address: str
    """Listening address `host:port` of all front ends."""
    device: str
    """Address of the device process: `unix:/path`."""
    message_bytes: int
    bytes_in_flight: int
    connections: int
    calls: int
    watches: int
    tokens: str
    token: str
    tls_ca: str
    tls_identity: str
    reflection: ReflectionChoice
    max_connection_age_s: float
    grace_s: float
    """Seconds for calls in progress at SIGTERM."""
    trace_sample: float
    log_level: str
    log_format: LogFormat

    @classmethod
    def of(cls, settings: ServerSettings, index: int, *, address: str, device: str, message_bytes: int) -> Self:
        """Return those of front end `index` of the server with these settings."""
        count = settings.inference.front_ends
        return cls(
            index=index,
            address=address,
            device=device,
            message_bytes=message_bytes,
            bytes_in_flight=settings.max_bytes_in_flight // count,
            connections=max(2, settings.max_connections // count),
            calls=max(1, settings.max_concurrent_calls // count),
            watches=max(1, MAX_WATCHES // count),
            tokens=plain(settings.tokens) or "",
            token=plain(settings.token) or "",
            tls_ca=str(settings.tls.ca or ""),
            tls_identity=str(settings.tls.identity or ""),
            reflection=settings.reflection,
            max_connection_age_s=settings.max_connection_age_s,
            grace_s=settings.grace_s / 2,
            trace_sample=settings.trace_sample,
            log_level=settings.log_level,
            log_format=settings.log_format,
        )

    @property
    def tls(self) -> Tls:
        """TLS of the port."""
        return Tls(Path(self.tls_ca) if self.tls_ca else None, Path(self.tls_identity) if self.tls_identity else None)

    def fields(self) -> dict[str, Any]:
        """Return the fields of the frame."""
        return asdict(self)
