"""Small certificate authority: one directory, with a subdirectory per service.

    certs/authority/ca.crt, ca.key          the authority; its key is needed only to issue and renew
    certs/gatekeeper/tls.crt, tls.key       certificate of the gatekeeper
    certs/gatekeeper/ca.crt                 authority that it trusts

The file names are those of cert-manager's secrets, so the settings of a service are the same either way. Only `renew`
overwrites. Keys are EC P-256 and readable only by their owner; a client certificate is not valid for a server.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from zerofleet.errors import ConfigurationError
from zerofleet.rpc.security.tls import CERTIFICATE, KEY
from zerofleet.storage.files import atomic_publish

__all__ = ["AUTHORITY", "CA", "CLIENTS", "SERVERS", "Authority", "Identity"]

AUTHORITY, CA, CA_KEY = "authority", "ca.crt", "ca.key"
AUTHORITY_DAYS = 3650
CLOCK_SKEW = timedelta(minutes=5)  # machines with slow clocks still accept a new certificate

_LOCAL = ("localhost", "127.0.0.1", "::1")
SERVERS: Mapping[str, tuple[str, ...]] = {
    "inference_server": ("inference", "inference-server", "inference-control", *_LOCAL),
    "gatekeeper": ("gatekeeper", *_LOCAL),
}
"""Servers, with their host names in compose, on Kubernetes and on this machine."""
CLIENTS = ("trainer", "selfplay_worker", "operator")
"""Identities that are only clients; `operator` is a person at the command line."""

_IDENTITY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_HOST = re.compile(r"(\*\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Identity:
    """Certificate, new or existing."""

    name: str
    directory: Path
    names: tuple[str, ...]
    """Host names and addresses of the server; empty for a client."""
    expires: datetime
    made: bool
    """False if it existed."""


class Authority:
    """Issues and renews certificates in one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def establish(self) -> Identity:
        """Return the authority; create it if missing. Raises `ConfigurationError` for a certificate without its key.

        A key without its certificate, as a kill between the two leaves it, gets one: the name and the key of an authority are
        what its certificates are checked with.
        """
        certificate, key = self._directory / AUTHORITY / CA, self._directory / AUTHORITY / CA_KEY
        made = not certificate.exists()
        if made:
            _make_private(certificate.parent)
            if not key.exists():
                _write(key, _pem(ec.generate_private_key(ec.SECP256R1())), private=True)
            signed = _authority_certificate(_authority_key(key), datetime.now(UTC))
            _write(certificate, signed.public_bytes(Encoding.PEM))
        elif not key.exists():
            raise ConfigurationError(f"{certificate.parent} has {CA} without {CA_KEY}; restore it, or choose another directory")
        return Identity(AUTHORITY, certificate.parent, (), _read(certificate).not_valid_after_utc, made)

    def issue(self, name: str, hosts: Sequence[str] = (), *, days: int) -> Identity:
        """Return the identity with this name; issue it if missing, never overwrite it.

        `hosts` are the host names and addresses of a server; without any it is only a client. Raises `ConfigurationError`
        for an invalid name, and for an existing certificate that lacks some of `hosts`.
        """
        directory = self._of(name)
        if (directory / CERTIFICATE).exists():
            found = _identity(name, directory, made=False)
            if missing := set(hosts) - set(found.names):
                raise ConfigurationError(
                    f"{directory} has a certificate without {', '.join(sorted(missing))}; nothing was overwritten: "
                    "add --renew to reissue it with these names"
                )
            return found
        return self._make(name, hosts, days=days)

    def renew(self, name: str, hosts: Sequence[str] = (), *, days: int) -> Identity:
        """Reissue an identity with a new key, its existing names and `hosts`.

        Raises `ConfigurationError` if it does not exist.
        """
        directory = self._of(name)
        if not (directory / CERTIFICATE).exists():
            raise ConfigurationError(f"{directory} has no {CERTIFICATE} to renew; omit --renew to issue one")
        names = dict.fromkeys((*_identity(name, directory, made=False).names, *hosts))
        return self._make(name, tuple(names), days=days)

    def known(self) -> list[str]:
        """Return the names of the existing identities."""
        return sorted(path.parent.name for path in self._directory.glob(f"*/{CERTIFICATE}"))

    def _of(self, name: str) -> Path:
        if _IDENTITY.fullmatch(name) is None or name == AUTHORITY:
            raise ConfigurationError(f"{name!r} is not a valid identity name; want lower-case letters, digits, - and _")
        return self._directory / name

    def _make(self, name: str, hosts: Sequence[str], *, days: int) -> Identity:
        key, authority = self._signer()
        now = datetime.now(UTC)
        if now + timedelta(days=days) > authority.not_valid_after_utc:
            raise ConfigurationError(
                f"the authority in {self._directory} expires on {authority.not_valid_after_utc:%Y-%m-%d}, before {days} days; "
                "use fewer --days, or create another authority in another directory"
            )
        private = ec.generate_private_key(ec.SECP256R1())
        builder = _begun(name, private, now, days).issuer_name(authority.subject)
        signed = _usage(builder, hosts, authority).sign(key, hashes.SHA256())
        directory = self._directory / name
        _make_private(directory)
        # Key first: a service that reads in between finds a mismatch and retries. The certificate last: with it the identity
        # exists, and is not made again after a kill.
        _write(directory / KEY, _pem(private), private=True)
        _write(directory / CA, authority.public_bytes(Encoding.PEM))
        _write(directory / CERTIFICATE, signed.public_bytes(Encoding.PEM))
        return _identity(name, directory, made=True)

    def _signer(self) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
        self.establish()
        return _authority_key(self._directory / AUTHORITY / CA_KEY), _read(self._directory / AUTHORITY / CA)


def _authority_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigurationError(f"{path} is not an EC key; choose another directory")
    return key


def _authority_certificate(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Zerofleet authority")])
    usage = x509.KeyUsage(**{**dict.fromkeys(_USES, False), "key_cert_sign": True, "crl_sign": True})
    return (
        _begun("Zerofleet authority", key, now, AUTHORITY_DAYS)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


_USES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


def _begun(name: str, key: ec.EllipticCurvePrivateKey, now: datetime, days: int) -> x509.CertificateBuilder:
    """Return a builder with the fields common to all certificates."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(builder: x509.CertificateBuilder, hosts: Sequence[str], authority: x509.Certificate) -> x509.CertificateBuilder:
    """Add the usage extensions: servers may also be clients, clients may not be servers."""
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])]
    issuer = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(**{**dict.fromkeys(_USES, False), "digital_signature": True}), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer), critical=False)
    )
    if not hosts:
        return builder
    return builder.add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)


def _general_name(host: str) -> x509.GeneralName:
    with contextlib.suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(host))
    if _HOST.fullmatch(host) is None:
        raise ConfigurationError(f"{host!r} (from --name) is neither a lower-case host name nor an address")
    return x509.DNSName(host)


def _identity(name: str, directory: Path, *, made: bool) -> Identity:
    certificate = _read(directory / CERTIFICATE)
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        names = tuple(str(entry.value) for entry in extension.value)
    except x509.ExtensionNotFound:
        names = ()
    return Identity(name, directory, names, certificate.not_valid_after_utc, made)


def _read(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError as error:
        raise ConfigurationError(f"{path} is not a PEM certificate: {error}") from None


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _make_private(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)


def _write(path: Path, content: bytes, *, private: bool = False) -> None:
    atomic_publish(path, content, mode=0o600 if private else 0o644)
