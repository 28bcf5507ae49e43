"""TLS of a process, from two settings: trusted authorities and own certificate.

                                server                                 client
    neither                     plain text                             plain text
    tls_identity                encrypted, no client certificates      encrypted, trusts public authorities, presents its own
    tls_ca                      refused: no certificate                encrypted, presents no certificate
    tls_ca and tls_identity     encrypted, requires client ones        encrypted, presents its own

There is no fallback to plain text. Unix sockets are always plain: file permissions protect them. Files renewed on disk are
loaded without a restart; invalid ones are ignored with a warning, and the previous ones stay in use. The end of the certificate
in use is a metric, since a process that runs for a year would lose its connections without a line in its log.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog

from zerofleet.errors import ConfigurationError
from zerofleet.telemetry import metrics

__all__ = ["CERTIFICATE", "KEY", "PLAIN", "Material", "RenewedMaterial", "Tls"]

CERTIFICATE, KEY = "tls.crt", "tls.key"  # as cert-manager names them in its secrets
WARN_BEFORE = timedelta(days=14)

log = structlog.get_logger()

Signature = tuple[tuple[int, ...] | None, ...]


@dataclass(frozen=True, slots=True)
class Material:
    """Key material for grpc, as PEM."""

    roots: bytes | None
    chain: bytes | None
    key: bytes | None


@dataclass(frozen=True, slots=True)
class Tls:
    """Paths of trusted authorities and own certificate. False when both are unset."""

    ca: Path | None = None
    """Certificates of the trusted authorities."""
    identity: Path | None = None
    """Directory with `tls.crt` and `tls.key`, or certificate file with its key beside it as `.key`."""

    def __bool__(self) -> bool:
        return self.ca is not None or self.identity is not None

    @property
    def certificate(self) -> Path | None:
        """File with the own certificate, followed by intermediate ones."""
        if self.identity is None:
            return None
        return self.identity / CERTIFICATE if self.identity.is_dir() else self.identity

    @property
    def key(self) -> Path | None:
        """File with the private key."""
        if self.identity is None:
            return None
        return self.identity / KEY if self.identity.is_dir() else self.identity.with_suffix(".key")

    def load(self) -> Material:
        """Return the content of the files.

        Raises `ConfigurationError` for an unreadable or invalid file, a key that others may read or that does not match the
        certificate, and an expired certificate.
        """
        roots = None if self.ca is None else _read(self.ca, "tls_ca")
        if roots is not None and self.ca is not None:
            _require_certificates(roots, self.ca)
        if self.certificate is None or self.key is None:
            return Material(roots, None, None)
        chain, key = _read(self.certificate, "tls_identity"), _read_key(self.key)
        _require_identity(chain, key, self.certificate, self.key)
        return Material(roots, chain, key)

    def signature(self) -> Signature:
        """Return a value that changes when a file is written, replaced or given other permissions."""
        return tuple(_signature(path) for path in (self.ca, self.certificate, self.key) if path is not None)


PLAIN = Tls()
"""No TLS."""


class RenewedMaterial:
    """Current content of the files. Raises as `Tls.load` on creation only."""

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._signature = self._refused = tls.signature()
        self.material = tls.load()

    def look_again(self) -> bool:
        """Reload changed files; return whether there is new material.

        A key and certificate that do not match yet, because only one of them has been written, are reread at their next change.
        """
        if (signature := self._tls.signature()) in {self._signature, self._refused}:
            return False
        try:
            material = self._tls.load()
        except ConfigurationError as error:
            log.warning("tls.not_renewed", reason=str(error))
            self._refused = signature  # warn once
            return False
        self._signature = signature
        changed, self.material = material != self.material, material
        if changed:
            log.info("tls.renewed", ca=str(self._tls.ca or ""), identity=str(self._tls.identity or ""))
        return changed


def _signature(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ino, found.st_size, found.st_mode)


def _read(path: Path, setting: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        what = "a file of certificates (PEM)" if setting == "tls_ca" else f"a directory with {CERTIFICATE} and {KEY}"
        raise ConfigurationError(f"{setting}: {path} cannot be read: {error.strerror}; want {what}") from error


def _read_key(path: Path) -> bytes:
    """Return a private key; reject one that other users may read or replace."""
    content = _read(path, "tls_identity")
    mode = path.stat().st_mode
    if mode & (stat.S_IRWXO | stat.S_IWGRP):
        raise ConfigurationError(
            f"the private key {path} has mode {stat.S_IMODE(mode):04o} and is accessible to others;"
            f" chmod 600 {path} (0440 in a Kubernetes volume), and renew it if this machine has other users"
        )
    return content


def _require_certificates(pem: bytes, path: Path) -> None:
    from cryptography import x509  # noqa: PLC0415  (processes without TLS start without it)

    try:
        x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise ConfigurationError(f"{path} holds no PEM certificates: {error}") from None


def _require_identity(chain: bytes, key: bytes, certificate_path: Path, key_path: Path) -> None:
    """Export the end of the certificate; raise `ConfigurationError` unless it is currently valid and the key matches it."""
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    _require_certificates(chain, certificate_path)
    certificate = x509.load_pem_x509_certificates(chain)[0]
    try:
        public_key = load_pem_private_key(key, password=None).public_key()
    except (ValueError, TypeError):
        raise ConfigurationError(f"{key_path} holds no unencrypted PEM private key") from None
    if public_key != certificate.public_key():
        raise ConfigurationError(f"the private key {key_path} does not match the certificate {certificate_path}")
    now, ends = datetime.now(UTC), certificate.not_valid_after_utc
    if now > ends:
        raise ConfigurationError(f"the certificate {certificate_path} expired on {ends:%Y-%m-%d %H:%M} UTC; renew it")
    metrics.CERTIFICATE_EXPIRY.set(ends.timestamp())
    if ends - now < WARN_BEFORE:
        log.warning("tls.expires_soon", certificate=str(certificate_path), expires=f"{ends:%Y-%m-%d %H:%M} UTC")
