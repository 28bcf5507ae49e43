"""Channels of a client to an inference server and a gatekeeper, for calls of grpc and of grpc.aio alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from zerofleet_client.contracts.wire.evaluation_pb2_grpc import EvaluationStub
from zerofleet_client.contracts.wire.gatekeeper_pb2_grpc import GatekeeperStub
from zerofleet_client.errors import ConfigurationError
from zerofleet_client.operations import Call, Service
from zerofleet_client.rpc.addresses import is_unix, require_address
from zerofleet_client.rpc.channel_options import CHANNEL_OPTIONS
from zerofleet_client.tls import Tls

__all__ = ["Connection", "connect", "connection_of", "require_timeout", "token_metadata"]

TOKEN_HEADER = "x-zerofleet-token"  # noqa: S105 - the name of a header
_STUBS: Mapping[Service, Callable[[Any], Any]] = {Service.EVALUATION: EvaluationStub, Service.GATEKEEPER: GatekeeperStub}


@dataclass(frozen=True, slots=True)
class Connection:
    """Channel to a server with the stub of its service."""

    target: str
    channel: Any
    """`grpc.Channel` or `grpc.aio.Channel`."""
    stub: Any

    def method(self, call: Call) -> Any:
        """Return the callable of a call's method."""
        return getattr(self.stub, call.method)


def connect(grpc_module: Any, *, inference: str | None, gatekeeper: str | None, tls: Tls | None) -> dict[Service, Connection]:
    """Return the connections of a client; each connects with its first call. `grpc_module` is `grpc` or `grpc.aio`.

    Raises `ConfigurationError` for no address, an invalid one, and unreadable files of `tls`. Unix sockets are plain text.
    """
    targets = {Service.EVALUATION: inference, Service.GATEKEEPER: gatekeeper}
    named = {service: require_address(target) for service, target in targets.items() if target is not None}
    if not named:
        raise ConfigurationError("the client has no address; name an inference server, a gatekeeper or both")
    credentials = None if tls is None else tls.credentials()
    found = {}
    for service, target in named.items():
        if credentials is None or is_unix(target):
            channel = grpc_module.insecure_channel(target, options=CHANNEL_OPTIONS)
        else:
            channel = grpc_module.secure_channel(target, credentials, options=CHANNEL_OPTIONS)
        found[service] = Connection(target, channel, _STUBS[service](channel))
    return found


def connection_of(connections: Mapping[Service, Connection], call: Call) -> Connection:
    """Return the connection for a call; raises `ConfigurationError` if the client has none."""
    if (found := connections.get(call.service)) is None:
        raise ConfigurationError(f"{call.method} needs a {call.service.value}, and this client has no address of one")
    return found


def require_timeout(timeout_s: float) -> float:
    """Return a timeout in seconds; raises `ConfigurationError` unless it is positive."""
    if not timeout_s > 0:
        raise ConfigurationError(f"timeout_s is {timeout_s}; want more than 0 seconds")
    return timeout_s


def token_metadata(token: str | None) -> tuple[tuple[str, str], ...]:
    """Return the metadata that presents a token; raises `ConfigurationError` for one that no header can hold."""
    if token is None:
        return ()
    if not token or not token.isascii() or not token.isprintable():
        raise ConfigurationError("the token is empty or has characters other than printable ASCII")
    return ((TOKEN_HEADER, token),)
