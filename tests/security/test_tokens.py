from pathlib import Path

import pytest

from zerofleet.contracts.wire import evaluation_pb2, gatekeeper_pb2
from zerofleet.errors import ConfigurationError
from zerofleet.rpc.security.credentials import client_tls, client_token, without_credentials
from zerofleet.rpc.security.tls import PLAIN, Tls
from zerofleet.rpc.security.tokens import PERMISSIONS, Role, TokenTable, roles_of

WORKER, OPERATOR = "w" * 32, "o" * 32


def test_each_token_has_its_role_and_others_have_none():
    table = TokenTable.parse(f"# rotated monthly\nworker: {WORKER}\n\noperator:{OPERATOR}\nworker: {'v' * 32}\n")
    assert [table.role(token.encode()) for token in (WORKER, "v" * 32, OPERATOR)] == [Role.WORKER, Role.WORKER, Role.OPERATOR]
    for wrong in ("", WORKER[:-1], WORKER + "w", WORKER.upper(), "worker", "\u00f6" * 32):
        assert table.role(wrong.encode()) is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no line"),
        ("# only a remark", "no line"),
        (f"root: {WORKER}", "line 1 .* has no valid role"),
        (WORKER, "line 1 .* has no valid role"),
        (f"worker: {WORKER}\ntrainer: short", "line 2 .* 5 characters for trainer"),
        (f"worker: {'w' * 600}", "600 characters"),
        (f"worker: {WORKER} {WORKER}", "printable ASCII"),
        (f"worker: {WORKER}\noperator: {WORKER}", "line 2 .* repeats a token of worker"),
    ],
)
def test_invalid_tokens_are_refused_without_being_shown(text, complaint):
    with pytest.raises(ConfigurationError, match=complaint) as caught:
        TokenTable.parse(text)
    assert WORKER not in str(caught.value)


def test_every_call_of_our_services_is_in_the_table():
    for descriptor in (evaluation_pb2.DESCRIPTOR, gatekeeper_pb2.DESCRIPTOR):
        for service in descriptor.services_by_name.values():
            assert {f"/{service.full_name}/{method.name}" for method in service.methods} <= set(PERMISSIONS)


def test_a_call_that_is_not_in_the_table_is_the_operators():
    assert roles_of("/inference.GRPCInferenceService/CudaSharedMemoryRegister") == {Role.OPERATOR}
    assert roles_of("/grpc.health.v1.Health/Check") is None


def test_the_token_of_a_command_comes_from_a_file_before_the_variable(tmp_path):
    (tmp_path / "token").write_text("from-file\n")
    assert client_token({"ZEROFLEET_TOKEN_FILE": str(tmp_path / "token"), "ZEROFLEET_TOKEN": "plain"}) == "from-file"
    assert client_token({"ZEROFLEET_TOKEN": "plain"}) == "plain"
    assert client_token({}) is None
    with pytest.raises(ConfigurationError, match=r"ZEROFLEET_TOKEN_FILE=.*absent cannot be read"):
        client_token({"ZEROFLEET_TOKEN_FILE": str(tmp_path / "absent")})
    (tmp_path / "token").write_text("")
    with pytest.raises(ConfigurationError, match=r"ZEROFLEET_TOKEN_FILE=.*token is empty"):
        client_token({"ZEROFLEET_TOKEN_FILE": str(tmp_path / "token"), "ZEROFLEET_TOKEN": "plain"})


def test_commands_take_certificates_from_the_environment():
    assert client_tls({"ZEROFLEET_TLS_CA": "ca.crt", "ZEROFLEET_TLS_IDENTITY": "me"}) == Tls(Path("ca.crt"), Path("me"))
    assert client_tls({"ZEROFLEET_TLS_CA": "", "ZEROFLEET_TLS_IDENTITY": ""}) == client_tls({}) == PLAIN
    assert not PLAIN


def test_a_service_started_by_a_command_gets_no_token():
    secret = {f"ZEROFLEET_TOKEN{s}{file}": "x" for s in ("", "S") for file in ("", "_FILE")}
    assert without_credentials({**secret, "PATH": "/bin", "ZEROFLEET_TOKENIZER": "y"}) == {
        "PATH": "/bin",
        "ZEROFLEET_TOKENIZER": "y",
    }
