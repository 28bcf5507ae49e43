"""TLS of a client: trusted authorities and, where servers require one, an own certificate."""

from __future__ import annotations

import ssl
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
        """Return the credentials of a channel; raises `ConfigurationError` for an invalid file or half of a pair."""
        if (self.certificate is None) != (self.key is None):
            raise ConfigurationError("Tls needs certificate and key together, or neither")
        roots, key, chain = _read(self.ca), _read(self.key), _read(self.certificate)
        self._require_valid()
        return grpc.ssl_channel_credentials(roots, key, chain)

    def _require_valid(self) -> None:
        """Raise `ConfigurationError` unless the files hold certificates and the key; grpc would report an absent server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.set_ciphers("ALL:@SECLEVEL=0")  # keys of any size, as in grpc
        try:
            if self.ca is not None:
                context.load_verify_locations(self.ca)
        except ssl.SSLError as error:
            raise ConfigurationError(f"{self.ca} holds no certificates ({error.reason}); want a file in PEM") from error
        try:
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key, password="")
        except ssl.SSLError as error:
            raise ConfigurationError(
                f"{self.certificate} and {self.key} are no certificate and its key ({error.reason or error}); want files in"
                " PEM, the key without a password"
            ) from error


def _read(path: Path | str | None) -> bytes | None:
    if path is None:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}; want a file in PEM") from error
