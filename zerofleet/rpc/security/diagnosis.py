"""Diagnosis of failed TLS connections: for most causes grpc reports only a closed socket.

After a failed call, a probe connects to the server once more with Python's own TLS.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl

from zerofleet.errors import ConfigurationError
from zerofleet.rpc.addresses import is_unix
from zerofleet.rpc.security.tls import Tls

__all__ = ["host_and_port", "why_unreachable"]

KNOCK_TIMEOUT_S = 3.0
_SPEAKS_PLAIN = {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"}


def host_and_port(target: str) -> tuple[str, int] | None:
    """Return host and port of a target such as `host:port`, `dns:///name:port`, `ipv6:[::1]:5`; None without them."""
    if is_unix(target):
        return None
    address = target.rpartition("/")[2]
    for scheme in ("dns:", "ipv4:", "ipv6:"):
        address = address.removeprefix(scheme)
    host, _, port = address.rpartition(":")
    return (host.strip("[]"), int(port)) if host and port.isascii() and port.isdigit() else None


async def why_unreachable(target: str, tls: Tls, *, known_as: str | None = None) -> str | None:
    """Return the mismatch between the client's TLS and the server's, None if TLS is not the cause.

    `known_as` is the target with the server's name, when `target` is one address behind that name.

    Cancellation: the connection is closed.
    """
    if (place := host_and_port(target)) is None:
        return None
    name, _ = host_and_port(known_as or target) or place
    try:
        async with asyncio.timeout(KNOCK_TIMEOUT_S):
            return await (_why_not_encrypted(*place, name, tls) if tls else _why_not_plain(*place))
    except (OSError, TimeoutError, UnicodeError):  # the last for a text that is not a host name
        return None  # no server, or no reply: not a TLS problem


async def _why_not_plain(host: str, port: int) -> str | None:
    anything = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anything.check_hostname, anything.verify_mode = False, ssl.CERT_NONE  # nothing is sent or trusted
    anything.set_alpn_protocols(["h2"])
    with contextlib.suppress(ssl.SSLError):
        await _knock(host, port, anything, host)
        return "the server requires TLS and this client does not use it: set tls_ca (ZEROFLEET_TLS_CA)"
    return None


async def _why_not_encrypted(host: str, port: int, name: str, tls: Tls) -> str | None:
    try:
        context = await asyncio.to_thread(_context, tls)
        answered = await _knock(host, port, context, name)
    except ssl.SSLCertVerificationError as error:
        return _distrusted(error.verify_message, name, tls)
    except ssl.SSLError as error:
        return _refused(error.reason or str(error), tls)
    return None if answered else _refused("no answer", tls)


def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=None if tls.ca is None else str(tls.ca))
    context.set_alpn_protocols(["h2"])
    if tls.certificate is not None and tls.key is not None:
        context.load_cert_chain(str(tls.certificate), str(tls.key))
    return context


async def _knock(host: str, port: int, context: ssl.SSLContext, name: str) -> bool:
    """Return whether the server sends data after the handshake, as gRPC servers do; it may reject the client only then."""
    reader, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=name)
    try:
        return bool(await reader.read(1))
    except ConnectionError:
        return False
    finally:
        writer.transport.abort()  # gRPC servers do not answer close_notify, and asyncio would wait for it


def _distrusted(message: str, host: str, tls: Tls) -> str:
    text = message.lower()
    if "expired" in text:
        return "the server's certificate has expired: renew it on the server"
    if "mismatch" in text or "not valid for" in text:
        return f"the server's certificate does not name {host}: use a name in it, or make one with --name (zerofleet certs)"
    trusted = "the public authorities" if tls.ca is None else str(tls.ca)
    return f"the server's certificate is not from an authority in {trusted} ({message})"


def _refused(reason: str, tls: Tls) -> str:
    if reason in _SPEAKS_PLAIN:
        return "the server does not use TLS: set its tls_identity, or leave out tls_ca and tls_identity here"
    if tls.identity is None:
        return f"the server requires a client certificate: set tls_identity ({reason})"
    try:
        tls.load()
    except ConfigurationError as error:
        return f"the server rejects this client's certificate: {error}"
    return f"the server rejects the certificate {tls.certificate} ({reason}): its tls_ca must contain the authority"
