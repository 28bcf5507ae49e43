"""What a cluster shows to the world: nothing but what a user needs, on loopback, and never without a password."""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
import yaml
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis_server import serving

ROOT = Path(__file__).parents[2]
COMPOSE_FILES = sorted([*ROOT.glob("*compose*.yml"), *ROOT.glob("deploy/**/*compose*.yml")])
PASSWORDS = {"worker": "w" * 32, "trainer": "t" * 32, "probe": "p" * 32}


class _Loader(yaml.SafeLoader):
    """Reads the tags of compose, which change how files are laid over each other, for the values that they carry."""


def _carried(loader: yaml.SafeLoader, node: yaml.Node) -> object:
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return loader.construct_mapping(node, deep=True) if isinstance(node, yaml.MappingNode) else None


for tag in ("!reset", "!override"):
    _Loader.add_constructor(tag, _carried)


def compose_services() -> Iterator[tuple[str, str, dict]]:
    for path in COMPOSE_FILES:
        for name, service in yaml.load(path.read_text(), _Loader).get("services", {}).items():
            yield path.name, name, service or {}


def test_every_published_port_of_every_compose_file_is_on_loopback():
    assert COMPOSE_FILES
    published = [(file, name, str(port)) for file, name, service in compose_services() for port in service.get("ports", [])]
    assert published
    assert [entry for entry in published if not entry[2].startswith("127.0.0.1:")] == []


def test_redis_is_published_nowhere_and_no_service_is_on_the_network_of_the_host():
    for file, name, service in compose_services():
        assert name != "redis" or not service.get("ports"), file
        assert service.get("network_mode") in {None, "none"}, f"{file}: {name}"
        assert not service.get("privileged"), f"{file}: {name}"


def test_no_compose_file_holds_a_secret():
    for path in COMPOSE_FILES:
        for line in path.read_text().splitlines():
            found = re.search(r"(?:PASSWORD|TOKENS?|SECRET|KEY)(?!_*FILE): *(\S+)", line)
            assert found is None or found[1].startswith(("${", "#", '"${')), f"{path.name}: {line.strip()}"


@pytest.fixture(scope="module")
def users(prepare) -> str:
    return prepare.users(PASSWORDS)


@pytest.fixture(scope="module")
def server(tmp_path_factory, users) -> Iterator[Path]:
    """The socket of a Redis with the configuration and the users of the cluster."""
    with serving(tmp_path_factory.mktemp("redis"), users) as socket:
        yield socket


def client(server: Path, user: str | None = None, password: str | None = None) -> redis.Redis:
    return redis.Redis(unix_socket_path=str(server), username=user, password=password, retry=Retry(NoBackoff(), 0))


@pytest.mark.parametrize(
    ("user", "password"), [(None, None), ("default", ""), ("worker", "wrong"), ("trainer", PASSWORDS["worker"])]
)
def test_redis_rejects_every_command_without_the_right_password(server, user, password):
    with client(server, user, password) as stranger:
        for command in (["PING"], ["KEYS", "*"], ["XADD", "games", "*", "a", "b"], ["CONFIG", "GET", "*"], ["ACL", "LIST"]):
            with pytest.raises((redis.AuthenticationError, redis.exceptions.NoPermissionError)):
                stranger.execute_command(*command)


def test_a_worker_can_only_add_games(server):
    with client(server, "worker", PASSWORDS["worker"]) as worker:
        assert worker.xadd("games", {"uid": "u", "payload": b"p"})
        assert worker.xlen("games") >= 1
        for command in (
            ["XADD", "other", "*", "a", "b"],
            ["XRANGE", "games", "-", "+"],
            ["XTRIM", "games", "MAXLEN", "0"],
            ["DEL", "games"],
            ["FLUSHALL"],
            ["EVAL", "return 1", "0"],
            ["CONFIG", "SET", "dir", "/tmp"],
            ["SAVE"],
            ["SHUTDOWN"],
            ["REPLICAOF", "attacker", "6379"],
        ):
            with pytest.raises(redis.exceptions.NoPermissionError):
                worker.execute_command(*command)


def test_a_trainer_reads_games_and_cannot_administer(server):
    with client(server, "trainer", PASSWORDS["trainer"]) as trainer:
        for command in (["FLUSHALL"], ["CONFIG", "GET", "*"], ["DEL", "games"], ["ACL", "LIST"]):
            with pytest.raises(redis.exceptions.NoPermissionError):
                trainer.execute_command(*command)
        with pytest.raises(redis.exceptions.ResponseError):
            trainer.eval("return redis.call('FLUSHALL')", 0)


def test_the_documented_commands_read_and_delete_the_dead_letters(server):
    page = (ROOT / "docs/troubleshooting.md").read_text()
    said = [shlex.split(line, comments=True) for line in re.findall(r"^\$ ask (.*)$", page, re.MULTILINE)]
    assert [words[0] for words in said] == ["XREVRANGE", "XDEL", "EVAL"]
    with client(server, "trainer", PASSWORDS["trainer"]) as trainer:
        for number in range(3):
            trainer.xadd("games:dead", {"uid": f"game-{number}"}, id="1763745600000-0" if number == 0 else "*")
        lengths = []
        for words in said:
            trainer.execute_command(*words)
            lengths.append(trainer.xlen("games:dead"))
        assert lengths == [3, 2, 0]


def test_redis_rejects_a_value_far_larger_than_a_game(server):
    with client(server, "worker", PASSWORDS["worker"]) as worker:
        assert worker.xadd("games", {"uid": "u", "payload": bytes(1 << 20)})
        with pytest.raises((redis.ResponseError, redis.ConnectionError)):
            worker.xadd("games", {"uid": "u", "payload": bytes(8 << 20)})
        assert worker.xlen("games") >= 1


@pytest.mark.slow
def test_redis_disconnects_a_client_that_would_take_the_memory_of_its_container(server):
    """An unfinished command is kept in memory, whatever the limits on one value and on the games."""
    value = b"$2000000\r\n" + bytes(2_000_000) + b"\r\n"
    with socket.socket(socket.AF_UNIX) as worker:
        worker.connect(str(server))
        worker.sendall(f"AUTH worker {PASSWORDS['worker']}\r\n".encode())
        assert worker.recv(16) == b"+OK\r\n"
        worker.sendall(b"*100001\r\n$4\r\nXADD\r\n$5\r\ngames\r\n$1\r\n*\r\n")
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            _send(worker, value, times=200)
    with client(server, "worker", PASSWORDS["worker"]) as other:
        assert other.xadd("games", {"uid": "u", "payload": b"p"})


def test_redis_has_the_same_limits_under_compose_and_on_kubernetes():
    (mapped,) = (
        each["data"]["redis.conf"]
        for each in yaml.safe_load_all((ROOT / "deploy/kubernetes/base/redis.yaml").read_text())
        if each["kind"] == "ConfigMap"
    )
    composed = (ROOT / "deploy/redis/redis.conf").read_text()
    limits = [
        {line for line in text.splitlines() if re.match(r"append|client|maxmemory|proto|save|tcp", line)}
        for text in (composed, mapped)
    ]
    assert limits[0] == limits[1]
    assert len(limits[0]) >= 9


def _send(connection: socket.socket, value: bytes, *, times: int) -> None:
    for _ in range(times):
        connection.sendall(value)
