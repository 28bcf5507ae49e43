"""Services that a command starts for itself, in the environment of a container that runs another one."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from games.core import make
from zerofleet.storage.runs import RunDirectory
from zerofleet.supervisor.borrowed import gatekept, own_server

pytestmark = pytest.mark.slow
GAME = make("tic_tac_toe")
ANNOUNCED = '{"service": "gatekeeper", "pid": 1, "address": "unix:/elsewhere.sock", "metrics_port": 9100}'


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunDirectory]:
    with RunDirectory.create_or_open(tmp_path / "run", "tic_tac_toe", {}, preset="tiny", seed=1) as run:
        yield run


@pytest.fixture
def announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Set the environment of a container whose service holds its ports; return the announce file of that service."""
    announced = tmp_path / "live.json"
    announced.write_text(ANNOUNCED)
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        monkeypatch.setenv("ZEROFLEET_METRICS_HOST", "0.0.0.0")
        monkeypatch.setenv("ZEROFLEET_METRICS_PORT", str(port))
        monkeypatch.setenv("ZEROFLEET_HTTP_ADDRESS", f"127.0.0.1:{port}")
        monkeypatch.setenv("ZEROFLEET_INFERENCE__FRONT_ENDS", "2")
        monkeypatch.setenv("ZEROFLEET_ANNOUNCE", str(announced))
        yield announced


async def test_an_inference_server_of_a_command_takes_neither_ports_nor_file_nor_limit_of_the_container(
    run: RunDirectory, announced: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZEROFLEET_MAX_VERSIONS", "0")  # with which none would start
    async with own_server(run, GAME, max_versions=2) as server:
        assert server.address.startswith("unix:")
        assert announced.read_text() == ANNOUNCED  # noqa: ASYNC240
    assert announced.read_text() == ANNOUNCED  # noqa: ASYNC240


async def test_a_gatekeeper_of_a_command_takes_neither_ports_nor_the_announce_file_of_the_container(
    run: RunDirectory, announced: Path
) -> None:
    async with gatekept(run, GAME, self_tests=False) as address:
        assert address.startswith("unix:")
        assert announced.read_text() == ANNOUNCED  # noqa: ASYNC240
    assert announced.read_text() == ANNOUNCED  # noqa: ASYNC240
