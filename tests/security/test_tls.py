"""TLS of every connection: who can talk to whom, what is said when not, and certificates that are renewed under load."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from structlog.testing import capture_logs
from tls_peers import DAYS, echoing, make_certificates

import zerofleet
from zerofleet.contracts.wire import gatekeeper_pb2 as wire
from zerofleet.contracts.wire import gatekeeper_pb2_grpc as stubs
from zerofleet.errors import ConfigurationError, Unavailable
from zerofleet.rpc import channels
from zerofleet.rpc.channel_client import ChannelClient
from zerofleet.rpc.channels import open_channel
from zerofleet.rpc.failures import error_from
from zerofleet.rpc.gatekeeper_client import GatekeeperClient
from zerofleet.rpc.inference_channels import open_inference_channel
from zerofleet.rpc.security.diagnosis import host_and_port, why_unreachable
from zerofleet.rpc.security.ports import bind
from zerofleet.rpc.security.tls import PLAIN, Tls
from zerofleet.telemetry import metrics

INSTALLED = Path(zerofleet.__file__).parents[1]  # the checkout, or where the wheel was unpacked
DAY_S = 86_400
OPTIONS = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0))


class EchoClient(ChannelClient):
    def __init__(self, target, tls):
        super().__init__(target, open_channel(target, OPTIONS, tls), None, tls)
        self._say = self._channel.unary_unary("/any.Echo/Say")

    async def say(self, text=b"hello"):
        try:
            return await self._say(text, timeout=60)
        except grpc.aio.AioRpcError as failure:
            raise await self.explained(error_from(failure, target=self.target)) from failure


async def _said(address, tls):
    """Return what a client gets: the echo, or why there is none."""
    async with EchoClient(address, tls) as client:
        try:
            return (await client.say()).decode()
        except Unavailable as error:
            return str(error)


def _clients(certificates, others):
    ca, client = certificates.ca, certificates.root / "client"
    return {
        "plain": PLAIN,
        "trusts": Tls(ca),
        "trusts and shows": Tls(ca, client),
        "shows alone": Tls(None, client),
        "trusts others": Tls(others.ca),
        "shows a stranger's": Tls(ca, others.root / "client"),
    }


MATRIX = {
    "plain": {
        "plain": "hello",
        "trusts": "does not use TLS",
        "trusts and shows": "does not use TLS",
        "shows alone": "does not use TLS",
        "trusts others": "does not use TLS",
        "shows a stranger's": "does not use TLS",
    },
    "encrypted": {
        "plain": "the server requires TLS and this client does not use it: set tls_ca",
        "trusts": "hello",
        "trusts and shows": "hello",
        "shows alone": "not from an authority in the public authorities",
        "trusts others": "not from an authority in",
        "shows a stranger's": "hello",
    },
    "mutual": {
        "plain": "the server requires TLS and this client does not use it: set tls_ca",
        "trusts": "the server requires a client certificate: set tls_identity",
        "trusts and shows": "hello",
        "shows alone": "not from an authority in the public authorities",
        "trusts others": "not from an authority in",
        "shows a stranger's": "rejects the certificate",
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", MATRIX)
async def test_each_client_connects_to_each_server_or_gets_the_reason(certificates, others, kind):
    server = {"plain": PLAIN, "encrypted": Tls(None, certificates.root / "server"), "mutual": certificates.tls("server")}[kind]
    async with echoing(server) as address:
        for name, tls in _clients(certificates, others).items():
            said, wanted = await _said(address, tls), MATRIX[kind][name]
            assert (said == wanted) if wanted == "hello" else (wanted in said), (name, said)


async def test_a_certificate_of_another_name_is_refused(certificates):
    async with echoing(certificates.tls("elsewhere")) as address:
        assert "does not name 127.0.0.1" in await _said(address, certificates.tls("client"))
        assert "does not name localhost" in await _said(address.replace("127.0.0.1", "localhost"), certificates.tls("client"))


async def test_the_certificate_of_a_client_is_not_valid_for_a_server(certificates, tmp_path):
    """Not even one that names this machine."""
    key = load_pem_private_key((certificates.root / "client" / "tls.key").read_bytes(), password=None)
    client = x509.load_pem_x509_certificate((certificates.root / "client" / "tls.crt").read_bytes())
    forged = _again(certificates, client, key, names=["localhost"])
    credentials = grpc.ssl_server_credentials([((certificates.root / "client" / "tls.key").read_bytes(), forged)])
    async with echoing(credentials=credentials) as address:
        said = await _said(address.replace("127.0.0.1", "localhost"), Tls(certificates.ca))
        assert "cannot be reached: the server's certificate is not from" in said
        assert "purpose" in said


async def test_an_expired_certificate_is_refused_by_clients(certificates):
    server = certificates.root / "server"
    key = load_pem_private_key((server / "tls.key").read_bytes(), password=None)
    old = _again(
        certificates,
        x509.load_pem_x509_certificate((server / "tls.crt").read_bytes()),
        key,
        ends=datetime.now(UTC) - timedelta(hours=1),
    )
    credentials = grpc.ssl_server_credentials([((server / "tls.key").read_bytes(), old)])
    async with echoing(credentials=credentials) as address:
        assert "the server's certificate has expired" in await _said(address, Tls(certificates.ca))


async def test_an_expired_client_is_refused_by_the_server(certificates, tmp_path, monkeypatch):
    directory = tmp_path / "client"
    shutil.copytree(certificates.root / "client", directory)
    key = load_pem_private_key((directory / "tls.key").read_bytes(), password=None)
    client = x509.load_pem_x509_certificate((directory / "tls.crt").read_bytes())
    (directory / "tls.crt").write_bytes(_again(certificates, client, key, ends=datetime.now(UTC) - timedelta(hours=1)))
    with pytest.raises(ConfigurationError, match=r"tls.crt expired on .* UTC; renew it"):
        Tls(certificates.ca, directory).load()
    async with echoing(certificates.tls("server")) as address:
        with monkeypatch.context() as patch:  # it expired while the client was running
            patch.setattr("zerofleet.rpc.security.tls._require_identity", lambda *about: None)
            late = EchoClient(address, Tls(certificates.ca, directory))
        async with late:
            with pytest.raises(Unavailable, match=r"rejects this client's certificate: .* expired on"):
                await late.say()


def _again(certificates, certificate, key, *, ends=None, names=()):
    """Return a certificate signed once more with another end, or other names."""
    authority = certificates.root / "authority"
    signer = load_pem_private_key((authority / "ca.key").read_bytes(), password=None)
    begins = certificate.not_valid_before_utc - timedelta(days=2)
    builder = (
        x509.CertificateBuilder(certificate.issuer, certificate.subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends or certificate.not_valid_after_utc)
    )
    for extension in certificate.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
    return builder.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM)


async def test_a_unix_socket_stays_plain_in_a_directory_private_to_its_owner(certificates, tmp_path):
    address = f"unix:{tmp_path}/sockets/echo.sock"
    async with echoing(certificates.tls("server"), address=address) as bound:
        assert bound == address
        assert await _said(address, PLAIN) == await _said(address, certificates.tls("client")) == "hello"
        assert (tmp_path / "sockets").stat().st_mode & 0o777 == 0o700


async def test_a_socket_in_a_directory_of_another_user_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 4711)
    monkeypatch.setattr("zerofleet.rpc.security.ports._ROOT", -1)
    with pytest.raises(ConfigurationError, match="belongs to user"):
        async with echoing(address=f"unix:{tmp_path}/echo.sock"):
            pass


async def test_a_socket_whose_directory_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"cannot make .*/file for unix:.*: File exists; set another --address"):
        bind(grpc.aio.server(), f"unix:{tmp_path}/file/server.sock")


@pytest.mark.parametrize("address", ["unix:", "unix://", "unix:///", "unix-abstract:"])
async def test_a_socket_without_a_path_is_refused_by_servers_and_clients(address):
    """grpc would listen on a name of the kernel's choice, which no client has."""
    with pytest.raises(ConfigurationError, match="is not an address; want HOST:PORT"):
        bind(grpc.aio.server(), address)
    with pytest.raises(ConfigurationError, match="is not an address; want HOST:PORT"):
        open_inference_channel(address)


async def test_a_server_with_an_authority_and_no_certificate_does_not_start(certificates):
    with pytest.raises(ConfigurationError, match=r"tls_ca without tls_identity"):
        async with echoing(Tls(certificates.ca)):
            pass


def test_a_private_key_that_others_may_read_is_refused(certificates, tmp_path):
    directory = tmp_path / "server"
    shutil.copytree(certificates.root / "server", directory)
    tls = Tls(None, directory)
    for mode in (0o604, 0o620, 0o666):
        (directory / "tls.key").chmod(mode)
        with pytest.raises(ConfigurationError, match=f"tls.key has mode {mode:04o} and is accessible to others; chmod 600"):
            tls.load()
    for mode in (0o400, 0o600, 0o440):  # Kubernetes gives a volume's files to a group of the pod's own
        (directory / "tls.key").chmod(mode)
        assert tls.load().chain == (directory / "tls.crt").read_bytes()


def test_an_identity_is_a_directory_or_a_certificate_with_its_key_beside_it(certificates, tmp_path):
    for name in ("crt", "key"):
        shutil.copy(certificates.root / "client" / f"tls.{name}", tmp_path / f"me.{name}")
    assert Tls(None, tmp_path / "me.crt").load() == Tls(None, certificates.root / "client").load()


def test_unusable_certificate_files_are_named(certificates, others, tmp_path):
    nothing = tmp_path / "nothing"
    with pytest.raises(ConfigurationError, match=r"tls_ca: .*nothing cannot be read: No such file"):
        Tls(nothing).load()
    with pytest.raises(ConfigurationError, match=r"tls_identity: .*nothing cannot be read"):
        Tls(None, nothing).load()
    nothing.write_text("nothing")
    with pytest.raises(ConfigurationError, match="holds no PEM certificates"):
        Tls(nothing).load()
    shutil.copy(certificates.root / "client" / "tls.crt", tmp_path / "me.crt")
    shutil.copy(others.root / "client" / "tls.key", tmp_path / "me.key")
    with pytest.raises(ConfigurationError, match="does not match the certificate"):
        Tls(None, tmp_path / "me.crt").load()
    (tmp_path / "me.key").write_text("nothing")
    with pytest.raises(ConfigurationError, match="holds no unencrypted PEM private key"):
        Tls(None, tmp_path / "me.crt").load()


@pytest.mark.slow
async def test_no_call_fails_while_authority_and_certificates_are_renewed(tmp_path, others, monkeypatch):
    """Everybody trusts the new authority beside the old one, then they change over, then the old one goes."""
    monkeypatch.setattr(channels, "LOOK_AGAIN_S", 0.0)
    certificates = make_certificates(tmp_path / "certificates")
    server, client = certificates.tls("server"), certificates.tls("client")
    old, new = certificates.ca.read_bytes(), others.ca.read_bytes()
    done, answered, seen = asyncio.Event(), asyncio.Semaphore(0), []

    def trust(pem):
        for directory in (server.identity, client.identity):
            (directory / "ca.crt").write_bytes(pem)

    def renew(name):
        certificates.authority.renew(name, days=30)
        trust(old + new)

    async def ask(address):
        async with EchoClient(address, client) as echo:
            while not done.is_set():
                assert await echo.say() == b"hello"
                answered.release()

    async def connect_and_ask(address):
        while not done.is_set():
            assert await _said(address, client) == "hello"
            answered.release()

    async with echoing(server) as address, asyncio.TaskGroup() as group:
        for caller in (ask, ask, connect_and_ask, connect_and_ask):
            group.create_task(caller(address))
        steps = (
            lambda: trust(old + new),
            lambda: renew("client"),
            lambda: renew("server"),
            lambda: _exchange(others.root / "server", server.identity),
            lambda: _exchange(others.root / "client", client.identity),
            lambda: trust(new),
        )
        for step in steps:
            step()
            await _acquired(answered, 40)
            seen.append(await asyncio.to_thread(_serial_shown, address, client))
            assert seen[-1] == _serial((server.identity / "tls.crt").read_bytes())
        done.set()
    assert len(set(seen)) == 3
    async with echoing(server) as address:
        assert await _said(address, others.tls("client")) == "hello"
        assert "rejects" in await _said(address, Tls(others.ca, _former(certificates)))


async def _acquired(semaphore, times):
    for _ in range(times):
        await semaphore.acquire()


def _former(certificates):
    """Return a client of the authority that was dropped."""
    return certificates.authority.issue("former", days=30).directory


def _exchange(source, target):
    for name in ("tls.key", "tls.crt"):
        (target / name).write_bytes((source / name).read_bytes())


def _serial(pem):
    return x509.load_pem_x509_certificate(pem).serial_number


def _serial_shown(address, tls):
    """Return the number of the certificate that a new connection is shown."""
    context = ssl.create_default_context(cafile=str(tls.ca))
    context.load_cert_chain(str(tls.certificate), str(tls.key))
    host, port = host_and_port(address)
    with socket.create_connection((host, port), timeout=60) as raw, context.wrap_socket(raw, server_hostname=host) as wrapped:
        return x509.load_der_x509_certificate(wrapped.getpeercert(binary_form=True)).serial_number


async def test_unusable_new_files_are_ignored_and_the_previous_ones_stay_in_effect(tmp_path):
    certificates = make_certificates(tmp_path / "certificates")
    async with echoing(certificates.tls("server")) as address:
        assert await _said(address, certificates.tls("client")) == "hello"
        (certificates.root / "server" / "tls.crt").write_text("half a certifi")
        with capture_logs() as said:
            for _ in range(3):
                assert await _said(address, certificates.tls("client")) == "hello"
        assert [entry["event"] for entry in said] == ["tls.not_renewed"]
        (certificates.root / "server" / "tls.crt").unlink()
        certificates.authority.issue("server", ["127.0.0.1"], days=DAYS)
        with capture_logs() as said:
            assert await _said(address, certificates.tls("client")) == "hello"
        assert [entry["event"] for entry in said] == ["tls.renewed"]


async def test_the_exported_end_of_a_certificate_is_that_of_the_one_in_use(tmp_path):
    certificates = make_certificates(tmp_path / "certificates")
    begun = datetime.now(UTC).timestamp()
    async with echoing(certificates.tls("server")) as address:
        assert abs(_exported_end() - (begun + DAYS * DAY_S)) < 60
        (certificates.root / "server" / "tls.crt").write_text("half a certifi")
        assert "requires a client certificate" in await _said(address, Tls(certificates.ca))  # whose end is not exported
        assert abs(_exported_end() - (begun + DAYS * DAY_S)) < 60
        (certificates.root / "server" / "tls.crt").unlink()
        certificates.authority.issue("server", ["127.0.0.1"], days=2 * DAYS)
        assert "requires a client certificate" in await _said(address, Tls(certificates.ca))
        assert abs(_exported_end() - (begun + 2 * DAYS * DAY_S)) < 60


def _exported_end():
    """Return the end of the certificate that the metrics of every service have, in seconds since the epoch."""
    (value,) = {
        float(line.rpartition(" ")[2])
        for service in metrics.EVERY
        for line in metrics.exposition(service).decode().splitlines()
        if line.startswith("zerofleet_tls_certificate_expiry_timestamp_seconds ")
    }
    return value


async def test_the_error_about_an_absent_server_does_not_mention_tls(certificates):
    async with echoing() as address:
        pass
    for tls in (PLAIN, certificates.tls("client")):
        assert await why_unreachable(address, tls) is None
        assert "is it running?" in await _said(address, tls)


@pytest.mark.parametrize(
    ("target", "place"),
    [
        ("inference:8001", ("inference", 8001)),
        ("dns:///inference.zerofleet.svc:8001", ("inference.zerofleet.svc", 8001)),
        ("ipv4:10.0.0.7:8001", ("10.0.0.7", 8001)),
        ("[::1]:8001", ("::1", 8001)),
        ("unix:/run/zerofleet/inference.sock", None),
        ("nonsense", None),
    ],
)
def test_host_and_port_are_parsed_from_a_target(target, place):
    assert host_and_port(target) == place


def test_connections_and_ports_are_opened_in_one_place_each():
    """What is opened elsewhere would be plain whatever the settings say."""
    raw = re.compile(r"\b(insecure_channel|secure_channel|add_insecure_port|add_secure_port|InferenceServerClient)\(")
    found = {
        str(path.relative_to(INSTALLED))
        for room in (
            "games",
            "zerofleet",
            "inference_server",
            "selfplay_worker",
            "trainer",
            "gatekeeper",
            "laboratory",
            "deploy",
        )
        for path in (INSTALLED / room).rglob("*.py")
        if raw.search(path.read_text(encoding="utf-8"))
    }
    assert found == {"zerofleet/rpc/channels.py", "zerofleet/rpc/security/ports.py"}


async def test_an_address_behind_a_name_is_verified_by_that_name(certificates):
    """As the gatekeeper asks each replica of the inference server by its address."""
    async with echoing(certificates.tls("elsewhere")) as address:
        name = f"dns:///elsewhere.example:{address.rpartition(':')[2]}"
        tls = certificates.tls("client")
        async with open_inference_channel(address, tls, known_as=name) as channel:
            assert await channel.unary_unary("/any.Echo/Say")(b"hello", timeout=60) == b"hello"
        assert await why_unreachable(address, tls, known_as=name) is None
        assert "does not name other.example" in await why_unreachable(address, tls, known_as="other.example:8001")


async def test_a_watcher_that_cannot_connect_reports_the_reason_and_recovers(certificates, tmp_path, monkeypatch):
    """It waits for ever otherwise, and nobody would know what for."""
    monkeypatch.setattr("zerofleet.rpc.gatekeeper_client.TELL_AFTER_S", 0.3)
    monkeypatch.setattr(channels, "LOOK_AGAIN_S", 0.0)
    own = make_certificates(tmp_path / "own")
    asked = asyncio.Event()

    class Gatekeeper(stubs.GatekeeperServicer):
        async def WatchChampion(self, request, context):
            asked.set()
            yield wire.Champion(game="tic_tac_toe", version=7, epoch=1)

    server = grpc.aio.server()
    stubs.add_GatekeeperServicer_to_server(Gatekeeper(), server)
    address = bind(server, "127.0.0.1:0", certificates.tls("server"))
    await server.start()
    tls = Tls(tmp_path / "own" / "client" / "ca.crt", own.root / "client")
    with capture_logs() as said:
        async with GatekeeperClient(address, tls=tls) as client, asyncio.timeout(60):
            watching = asyncio.ensure_future(anext(client.watch("tic_tac_toe")))
            while not said:
                await asyncio.wait({watching}, timeout=0.05)
            assert not asked.is_set()
            tls.ca.write_bytes(certificates.ca.read_bytes())
            _exchange(certificates.root / "client", tls.identity)
            assert (await watching).version == 7
    await server.stop(None)
    told = [entry["reason"] for entry in said if entry["event"] == "gatekeeper.unreachable"]
    assert len(told) == len(set(told))  # once for each reason
    assert "the server's certificate is not from an authority in" in told[0]
