"""A small certificate authority: one directory, in which each service has a directory of its own.

    certs/authority/ca.crt, ca.key          the authority; its key is needed to make and renew, and nowhere else
    certs/gatekeeper/tls.crt, tls.key       who the gatekeeper is
    certs/gatekeeper/ca.crt                 whom it trusts

The names are those of a secret that cert-manager writes, so a service is told the same either way. Nothing is overwritten
but by `renew`. Keys are EC P-256 and readable by their owner alone; the certificate of a client cannot pass for a server.
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
CLOCK_SKEW = timedelta(minutes=5)  # machines whose clocks are late accept a new certificate all the same

_LOCAL = ("localhost", "127.0.0.1", "::1")
SERVERS: Mapping[str, tuple[str, ...]] = {
    "inference_server": ("inference", "inference-server", "inference-control", *_LOCAL),
    "gatekeeper": ("gatekeeper", *_LOCAL),
}
"""Services that listen, with the names by which compose, Kubernetes and this machine reach them."""
CLIENTS = ("trainer", "selfplay_worker", "operator")
"""Who only asks; `operator` is a person at the command line."""

_IDENTITY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_HOST = re.compile(r"(\*\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate that was made, or was there."""

    name: str
    directory: Path
    names: tuple[str, ...]
    """Hosts and addresses under which clients may reach it; empty for one who only asks."""
    expires: datetime
    made: bool
    """False when it was there."""


class Authority:
    """Makes and renews certificates in one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def establish(self) -> Identity:
        """Return the authority, made now if there is none. Raises `ConfigurationError` for half of one."""
        certificate, key = self._directory / AUTHORITY / CA, self._directory / AUTHORITY / CA_KEY
        if certificate.exists() != key.exists():
            raise ConfigurationError(
                f"{certificate.parent} has only one of {CA} and {CA_KEY}; restore the other, or choose another directory"
            )
        made = not certificate.exists()
        if made:
            private = ec.generate_private_key(ec.SECP256R1())
            signed = _authority_certificate(private, datetime.now(UTC))
            _make_private(certificate.parent)
            _write(key, _pem(private), private=True)
            _write(certificate, signed.public_bytes(Encoding.PEM))
        return Identity(AUTHORITY, certificate.parent, (), _read(certificate).not_valid_after_utc, made)

    def issue(self, name: str, hosts: Sequence[str] = (), *, days: int) -> Identity:
        """Return the identity of that name, made now if there is none; one that is there stays as it is.

        `hosts` are names and addresses under which clients reach it; without any it can only be a client. Raises
        `ConfigurationError` for a name that is none, and for one that is there without some of `hosts`.
        """
        directory = self._of(name)
        if (directory / CERTIFICATE).exists():
            found = _identity(name, directory, made=False)
            if missing := set(hosts) - set(found.names):
                raise ConfigurationError(
                    f"{directory} has a certificate without {', '.join(sorted(missing))}; nothing is overwritten: "
                    "add --renew to make it anew with these names"
                )
            return found
        return self._make(name, hosts, days=days)

    def renew(self, name: str, hosts: Sequence[str] = (), *, days: int) -> Identity:
        """Return an identity made anew, with a new key and the names that it had, and `hosts` beside them.

        Raises `ConfigurationError` where there is none.
        """
        directory = self._of(name)
        if not (directory / CERTIFICATE).exists():
            raise ConfigurationError(f"{directory} has no {CERTIFICATE} to renew; leave out --renew to make one")
        names = dict.fromkeys((*_identity(name, directory, made=False).names, *hosts))
        return self._make(name, tuple(names), days=days)

    def known(self) -> list[str]:
        """Return the names of the identities there are."""
        return sorted(path.parent.name for path in self._directory.glob(f"*/{CERTIFICATE}"))

    def _of(self, name: str) -> Path:
        if _IDENTITY.fullmatch(name) is None or name == AUTHORITY:
            raise ConfigurationError(f"{name!r} is no name of an identity; want lower-case letters, digits, - and _")
        return self._directory / name

    def _make(self, name: str, hosts: Sequence[str], *, days: int) -> Identity:
        key, authority = self._signer()
        now = datetime.now(UTC)
        if now + timedelta(days=days) > authority.not_valid_after_utc:
            raise ConfigurationError(
                f"the authority in {self._directory} ends on {authority.not_valid_after_utc:%Y-%m-%d}, before {days} days; "
                "name fewer --days, or make another authority in another directory"
            )
        private = ec.generate_private_key(ec.SECP256R1())
        builder = _begun(name, private, now, days).issuer_name(authority.subject)
        signed = _usage(builder, hosts, authority).sign(key, hashes.SHA256())
        directory = self._directory / name
        _make_private(directory)
        # The key first: a service that looks in between finds that they do not fit, and looks again.
        _write(directory / KEY, _pem(private), private=True)
        _write(directory / CERTIFICATE, signed.public_bytes(Encoding.PEM))
        _write(directory / CA, authority.public_bytes(Encoding.PEM))
        return _identity(name, directory, made=True)

    def _signer(self) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
        self.establish()
        key = load_pem_private_key((self._directory / AUTHORITY / CA_KEY).read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ConfigurationError(f"{self._directory / AUTHORITY / CA_KEY} is no EC key; choose another directory")
        return key, _read(self._directory / AUTHORITY / CA)


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
    """Return what the authority's certificate and the others have in common."""
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
    """Say what a certificate is good for: who listens may also ask, who only asks may not listen."""
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
        raise ConfigurationError(f"{host!r} is neither a host name in lower case nor an address; got it from --name")
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
        raise ConfigurationError(f"{path} is no certificate in PEM: {error}") from None


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _make_private(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)


def _write(path: Path, content: bytes, *, private: bool = False) -> None:
    atomic_publish(path, content, mode=0o600 if private else 0o644)
