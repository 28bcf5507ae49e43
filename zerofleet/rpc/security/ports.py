"""Ports of all servers: TLS on the network according to the settings, plain text on unix sockets."""

from __future__ import annotations

import os
import socket
from contextlib import closing
from pathlib import Path

import grpc

from zerofleet.errors import ConfigurationError
from zerofleet.rpc.addresses import is_unix, require_address
from zerofleet.rpc.security.tls import PLAIN, Material, RenewedMaterial, Tls

__all__ = ["bind"]

_SOCKET_DIRECTORY_MODE = 0o700
_LONGEST_SOCKET_PATH = 107  # bytes, on Linux
_ROOT = 0


def bind(server: grpc.aio.Server, address: str, tls: Tls = PLAIN) -> str:
    """Bind a server to `host:port` or `unix:/path`; return the address for clients, with the actual port.

    Raises `ConfigurationError` when the address is invalid or in use, the directory of a socket belongs to another user or
    cannot be made, or the files of `tls` cannot be used.
    """
    require_address(address, lowest_port=0)
    if is_unix(address):
        _prepare_socket(Path(address.removeprefix("unix:").removeprefix("//")))
    credentials = None if is_unix(address) or not tls else _credentials(tls)
    try:
        port = server.add_insecure_port(address) if credentials is None else server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise ConfigurationError(f"cannot listen on {address}: is the port in use? set another --address") from error
    return address if is_unix(address) else f"{address.rpartition(':')[0]}:{port}"


def _credentials(tls: Tls) -> grpc.ServerCredentials:
    """Return credentials that recheck the files before each handshake."""
    if tls.identity is None:
        raise ConfigurationError(
            "tls_ca without tls_identity: a server needs its own certificate; make one with zerofleet certs"
        )
    files = RenewedMaterial(tls)

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        return _configuration(files.material) if files.look_again() else None

    return grpc.dynamic_ssl_server_credentials(
        _configuration(files.material),
        renewed,  # type: ignore[arg-type] # None: nothing new; missing in the stubs
        require_client_authentication=tls.ca is not None,
    )


def _configuration(material: Material) -> grpc.ServerCertificateConfiguration:
    pair = material.key or b"", material.chain or b""
    return grpc.ssl_server_certificate_configuration([pair], root_certificates=material.roots)


def _prepare_socket(path: Path) -> None:
    """Create the directory of a unix socket; reject a path on which a server listens: grpc would take it over."""
    if (length := len(os.fsencode(path))) > _LONGEST_SOCKET_PATH:
        raise ConfigurationError(
            f"unix:{path} has {length} bytes, and the path of a socket at most {_LONGEST_SOCKET_PATH}; choose a shorter one"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=_SOCKET_DIRECTORY_MODE)
        owner = path.parent.stat().st_uid
    except OSError as error:
        raise ConfigurationError(
            f"cannot make {path.parent} for unix:{path}: {error.strerror}; set another --address"
        ) from error
    if owner not in {os.geteuid(), _ROOT}:
        raise ConfigurationError(
            f"{path.parent} belongs to user {owner}, who could impersonate this server; set another --address"
        )
    with closing(socket.socket(socket.AF_UNIX)) as probe:
        if probe.connect_ex(str(path)) == 0:
            raise ConfigurationError(f"another server listens on unix:{path}; stop it or set another --address")
