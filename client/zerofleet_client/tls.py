"""TLS of a client: trusted authorities and, where servers require one, an own certificate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import grpc

from zerofleet_client.errors import ConfigurationError

__all__ = ["Tls"]


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM, read once when a client is made.

    Tls()                                                    public authorities
    Tls(ca="ca.crt")                                         these authorities
    Tls(ca="ca.crt", certificate="tls.crt", key="tls.key")   presents a certificate as well
    """

    ca: Path | str | None = None
    """Certificates of the trusted authorities; None: the public ones that grpc brings."""
    certificate: Path | str | None = None
    """Own certificate, followed by intermediate ones."""
    key: Path | str | None = None
    """Private key of the own certificate."""

    def credentials(self) -> grpc.ChannelCredentials:
        """Return the credentials of a channel; raises `ConfigurationError` for an unreadable file or half of a pair."""
        if (self.certificate is None) != (self.key is None):
            raise ConfigurationError("Tls needs certificate and key together, or neither")
        return grpc.ssl_channel_credentials(_read(self.ca), _read(self.key), _read(self.certificate))


def _read(path: Path | str | None) -> bytes | None:
    if path is None:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}; want a file in PEM") from error
