"""Processes on TCP that trust certificates and tokens alone: they serve, promote and play, and strangers do nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
import torch

from games.core import make
from trainer.export import Lineage, export_network
from trainer.network import Network
from zerofleet.errors import PermissionRefused, Unavailable
from zerofleet.evaluators.control import ModelControl
from zerofleet.presets import preset
from zerofleet.rpc.gatekeeper_client import GatekeeperClient
from zerofleet.rpc.security.tls import PLAIN, Tls
from zerofleet.service.authority import CLIENTS, SERVERS, Authority
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.storage.runs import RunDirectory
from zerofleet.storage.streams import open_stream

pytestmark = pytest.mark.slow

MODEL = "tic_tac_toe"
END = "--- end of a command ---"
# One process for all commands, each with its own environment: the imports take longer than a command.
IN_TURN = f"""
import json, os, sys
from zerofleet.cli import main

for words, environment in json.load(sys.stdin):
    os.environ.clear()
    os.environ.update(environment)
    try:
        status = main(words)
    except SystemExit as ended:
        status = ended.code
    if status:
        raise SystemExit(f"{{words}}: {{status}}")
    print({END!r}, flush=True)
"""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Where everything is, and with what each shows who it is."""

    root: Path
    certificates: Path
    tokens: dict[str, str]

    def tls(self, name: str) -> Tls:
        return Tls(self.certificates / name / "ca.crt", self.certificates / name)

    def environment(self, name: str, role: str) -> dict[str, str]:
        """Return what a process of that name is started with: files alone, as in a cluster."""
        token = self.root / f"{name}.{role}.token"
        token.write_text(self.tokens[role])
        return {
            **os.environ,
            "ZEROFLEET_TLS_CA": str(self.certificates / name / "ca.crt"),
            "ZEROFLEET_TLS_IDENTITY": str(self.certificates / name),
            "ZEROFLEET_TOKEN_FILE": str(token),
            "ZEROFLEET_TOKENS_FILE": str(self.root / "tokens"),
        }

    @contextlib.asynccontextmanager
    async def service(self, module: str, role: str, *arguments: str):
        """Start a service; yield the address it announces."""
        run, log = self.root / "run", self.root / f"{module}.log"
        announce = run / "services" / f"{module}.json"
        words = ["--run-dir", str(run), "--game", MODEL, "--preset", "tiny", "--announce", str(announce), *arguments]
        with log.open("wb") as out:
            environment = self.environment(module, role)
            child = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", module, *words, "--parent-pid", str(os.getpid())), env=environment, stderr=out
            )
        try:
            while not announce.exists():
                assert child.returncode is None, log.read_text()
                await asyncio.sleep(0.05)
            yield json.loads(announce.read_text()).get("address", "")
        finally:
            with contextlib.suppress(ProcessLookupError):
                child.terminate()
            await child.wait()


@pytest.fixture
def fleet(tmp_path):
    game, chosen = make(MODEL), preset(make(MODEL), "tiny")
    with RunDirectory.create_or_open(tmp_path / "run", MODEL, {}, preset="tiny", seed=1) as run:
        store = DirectoryStore(run.paths.models)
        torch.manual_seed(0)
        for _ in range(2):
            export_network(store, game, Network(game.spec(), chosen.network), chosen.network, lineage=Lineage())
        store.write_champion(MODEL, 1, epoch=1, reason="the first one")
    authority = Authority(tmp_path / "certs")
    for name in (*SERVERS, *CLIENTS):
        authority.issue(name, SERVERS.get(name, ()), days=30)
    tokens = {role: secrets.token_hex(16) for role in ("worker", "trainer", "evaluator", "operator")}
    (tmp_path / "tokens").write_text("".join(f"{role}: {token}\n" for role, token in tokens.items()))
    return Fleet(tmp_path, tmp_path / "certs", tokens)


@pytest.mark.timeout(600)
async def test_a_fleet_serves_promotes_and_plays_over_mutual_tls_with_tokens(fleet):
    async with (
        asyncio.timeout(560),
        fleet.service("inference_server", "operator", "--address", "127.0.0.1:0") as inference,
        fleet.service("gatekeeper", "operator", "--address", "127.0.0.1:0", "--inference-address", inference) as gatekeeper,
        fleet.service("selfplay_worker", "worker", "--inference-address", inference, "--gatekeeper-address", gatekeeper),
        contextlib.aclosing(open_stream(f"sqlite:///{fleet.root}/run/games.db", name="games")) as stream,
    ):
        async with GatekeeperClient(gatekeeper, token=fleet.tokens["operator"], tls=fleet.tls("operator")) as client:
            assert (await client.promote(MODEL, 2, reason="by hand")).version == 2
        while not (entries := await stream.consume(consumer="reader", limit=1, block_s=1.0)):
            pass
        assert entries
        await _commands_reach_it(fleet, inference, gatekeeper)
        await _strangers_do_not(fleet, inference, gatekeeper)


async def _commands_reach_it(fleet, inference, gatekeeper):
    """Commands show token and certificate, and so do the processes they start; only matches start a server of their own."""
    run, players = ("--run-dir", str(fleet.root / "run")), ("champion", "random", "--game", MODEL, "--games", "4")
    commands = {
        ("evaluate", MODEL, "--address", inference): "evaluator",
        ("models", "list", MODEL, "--address", gatekeeper): "evaluator",
        ("match", *players, "--simulations", "2", *run): "evaluator",
        ("tournament", *players, "--simulations", "2", "--workers", "1", *run): "evaluator",
        ("models", "rollback", MODEL, "--reason", "by hand", *run): "operator",
    }
    impossible = {"ZEROFLEET_MAX_VERSIONS": "0"}  # for a server that a gatekeeper would have
    jobs = [([*words, "--json"], fleet.environment("operator", role) | impossible) for words, role in commands.items()]
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", IN_TURN),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, wrong = await child.communicate(json.dumps(jobs).encode())
    assert child.returncode == 0, (said.decode(), wrong.decode())
    results = said.decode().split(END)
    assert len(results) == len(commands) + 1
    assert all(json.loads(result) for result in results[:-1])


async def _strangers_do_not(fleet, inference, gatekeeper):
    worker, tls = fleet.tokens["worker"], fleet.tls("selfplay_worker")
    async with GatekeeperClient(gatekeeper, token=worker, tls=tls) as client:
        with pytest.raises(PermissionRefused, match="role worker may not"):
            await client.promote(MODEL, 1, reason="mine")
    async with ModelControl(inference, tls=tls) as control:
        with pytest.raises(PermissionRefused, match="needs a token"):
            await control.loaded()
    for without, said in ((PLAIN, "the server requires TLS"), (Tls(tls.ca), "the server requires a client certificate")):
        async with GatekeeperClient(gatekeeper, token=worker, tls=without) as client:
            with pytest.raises(Unavailable, match=said):
                await client.champion(MODEL)
        async with ModelControl(inference, token=fleet.tokens["operator"], tls=without) as control:
            with pytest.raises(Unavailable, match=said):
                await control.loaded()
    async with grpc.aio.insecure_channel(inference) as channel:
        with pytest.raises(grpc.aio.AioRpcError):
            await channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=60)


async def test_a_server_that_cannot_be_secured_refuses_to_start(fleet):
    environment = fleet.environment("gatekeeper", "operator") | {"ZEROFLEET_TLS_IDENTITY": "nowhere"}
    words = [
        "--run-dir",
        str(fleet.root / "run"),
        "--game",
        MODEL,
        "--address",
        "127.0.0.1:0",
        "--inference-address",
        "127.0.0.1:1",
    ]
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gatekeeper", *words), env=environment, stderr=asyncio.subprocess.PIPE, cwd=fleet.root
    )
    _, text = await child.communicate()
    assert child.returncode == 2, text.decode()
    assert "tls_identity: nowhere cannot be read" in text.decode()
