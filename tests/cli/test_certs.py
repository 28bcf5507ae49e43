"""`zerofleet certs`: an authority and identities that are never overwritten, only renewed, and fit what services want."""

from __future__ import annotations

import subprocess
import sys

import pytest
from cryptography import x509

from zerofleet.rpc.security.tls import Tls
from zerofleet.service import authority
from zerofleet.service.authority import Authority

EVERYBODY = ["authority", "inference_server", "gatekeeper", "trainer", "selfplay_worker", "operator"]


def _contents(root):
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_every_identity_has_a_certificate_that_services_accept(zerofleet, tmp_path):
    outcome = zerofleet("certs", str(tmp_path / "certs"), "--json")
    assert outcome.code == 0, outcome.err
    said = outcome.json()["identities"]
    assert [one["name"] for one in said] == EVERYBODY
    assert all(one["made"] for one in said)
    reached = {one["name"]: set(one["names"]) for one in said}
    assert reached["gatekeeper"] == {"gatekeeper", "localhost", "127.0.0.1", "::1"}
    assert reached["inference_server"] >= {"inference", "inference-server", "localhost"}
    for name in EVERYBODY[1:]:
        directory = tmp_path / "certs" / name
        assert Tls(directory / "ca.crt", directory).load().key is not None


def test_keys_and_directories_are_accessible_to_their_owner_only(zerofleet, tmp_path):
    zerofleet("certs", str(tmp_path / "certs"))
    keys = list((tmp_path / "certs").rglob("*.key"))
    assert len(keys) == len(EVERYBODY)
    assert {key.stat().st_mode & 0o777 for key in keys} == {0o600}
    assert {key.parent.stat().st_mode & 0o777 for key in keys} == {0o700}
    assert list((tmp_path / "certs").rglob("*.tmp")) == []


@pytest.mark.parametrize("written", [0, 1, 2])
def test_an_identity_whose_making_was_killed_is_made_again(tmp_path, monkeypatch, written):
    identities = Authority(tmp_path)
    identities.establish()
    write, left = authority._write, iter(range(written))

    def killed(path, content, **options):
        if next(left, None) is None:
            raise KeyboardInterrupt
        write(path, content, **options)

    with monkeypatch.context() as killing:
        killing.setattr(authority, "_write", killed)
        with pytest.raises(KeyboardInterrupt):
            identities.issue("trainer", days=9)
    identities.issue("trainer", days=9)
    assert Tls(tmp_path / "trainer" / "ca.crt", tmp_path / "trainer").load().key is not None


def test_existing_certificates_are_not_overwritten_without_renew(zerofleet, tmp_path):
    zerofleet("certs", str(tmp_path))
    before = _contents(tmp_path)
    outcome = zerofleet("certs", str(tmp_path), "--json")
    assert not any(one["made"] for one in outcome.json()["identities"])
    refused = zerofleet("certs", str(tmp_path), "--name", "gatekeeper=gate.example")
    assert refused.code == 2
    assert "has a certificate without gate.example; nothing was overwritten: add --renew" in refused.err
    assert _contents(tmp_path) == before


def test_renewal_keeps_authority_and_names_and_issues_new_keys(zerofleet, tmp_path):
    zerofleet("certs", str(tmp_path), "--name", "gatekeeper=gate.example")
    before = _contents(tmp_path)
    outcome = zerofleet("certs", str(tmp_path), "--renew", "--days", "90", "--name", "gatekeeper=10.0.0.7", "--json")
    assert outcome.code == 0, outcome.err
    renewed = {one["name"]: one["names"] for one in outcome.json()["identities"] if one["made"]}
    assert set(renewed) == set(EVERYBODY[1:])
    assert renewed["gatekeeper"] == ["gatekeeper", "localhost", "127.0.0.1", "::1", "gate.example", "10.0.0.7"]
    after = _contents(tmp_path)
    assert after.keys() == before.keys()
    kept = {name for name in after if after[name] == before[name]}
    assert kept == {name for name in after if name.endswith("ca.crt")} | {"authority/ca.key"}


def test_a_single_identity_can_be_issued_or_renewed(zerofleet, tmp_path):
    made = zerofleet("certs", str(tmp_path), "--identity", "anna", "--json").json()["identities"]
    assert [one["name"] for one in made] == ["authority", "anna"]
    certificate = x509.load_pem_x509_certificate((tmp_path / "anna" / "tls.crt").read_bytes())
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--name", "gatekeeper"), "'gatekeeper' is not IDENTITY=HOST"),
        (("--name", "gatekeeper=no host"), "'no host' (from --name) is neither a lower-case host name"),
        (("--identity", "../evil"), "'../evil' is not a valid identity name"),
        (("--identity", "authority"), "'authority' is not a valid identity name"),
        (("--renew",), "has no certificates to renew"),
        (("--days", "0"), "want 1 or more"),
    ],
)
def test_an_invalid_certificate_request_is_rejected_with_one_error_line(zerofleet, tmp_path, words, said):
    outcome = zerofleet("certs", str(tmp_path / "certs"), *words)
    assert outcome.code == 2
    assert said in " ".join(outcome.err.split())


def test_only_existing_certificates_are_renewed(zerofleet, tmp_path):
    zerofleet("certs", str(tmp_path), "--identity", "anna")
    for name, said in (("bob", "has no tls.crt to renew"), ("../evil", "is not a valid identity name")):
        outcome = zerofleet("certs", str(tmp_path), "--renew", "--identity", name)
        assert outcome.code == 2
        assert said in outcome.err


def test_an_authority_without_its_key_is_rejected(zerofleet, tmp_path):
    zerofleet("certs", str(tmp_path))
    (tmp_path / "authority" / "ca.key").unlink()
    outcome = zerofleet("certs", str(tmp_path))
    assert outcome.code == 2
    assert "has ca.crt without ca.key; restore it, or choose another directory" in outcome.err


def test_an_authority_killed_before_its_certificate_is_completed_with_the_same_key(zerofleet, tmp_path):
    zerofleet("certs", str(tmp_path))
    authority, issued = tmp_path / "authority", (tmp_path / "gatekeeper" / "tls.crt").read_bytes()
    key = (authority / "ca.key").read_bytes()
    (authority / "ca.crt").unlink()
    assert zerofleet("certs", str(tmp_path)).code == 0
    assert (authority / "ca.key").read_bytes() == key
    completed = x509.load_pem_x509_certificate((authority / "ca.crt").read_bytes())
    x509.load_pem_x509_certificate(issued).verify_directly_issued_by(completed)


@pytest.mark.slow
def test_only_certs_imports_the_cryptography_library(tmp_path):
    code = "import sys, zerofleet.service.settings, zerofleet.cli.app; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
