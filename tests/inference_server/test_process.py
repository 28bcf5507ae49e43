"""`python -m inference_server` as a process: start, refuse to start, serve, end."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from contextlib import asynccontextmanager

import numpy as np
import pytest
from fake_network import MODEL
from grpc_health.v1 import health_pb2, health_pb2_grpc
from raw_http import as_json, ask, json_request

from trainer.export import Lineage, export_network
from trainer.network import new_network
from zerofleet.contracts.encodings import sample_positions
from zerofleet.evaluators.base import LeafBatch, ModelVersion
from zerofleet.evaluators.control import ModelControl
from zerofleet.evaluators.kserve import KServeEvaluator
from zerofleet.presets import NetworkSettings
from zerofleet.rpc.inference_channels import open_inference_channel

pytestmark = pytest.mark.slow
SMALL = NetworkSettings(blocks=1, channels=8, policy_channels=2, value_channels=2, value_hidden=8)


async def start(*arguments: str) -> asyncio.subprocess.Process:
    command = [sys.executable, "-m", "inference_server", "--game", MODEL, "--preset", "tiny", *arguments]
    return await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)


async def ready(process: asyncio.subprocess.Process, addresses: dict[str, str]) -> str:
    """Read the log until the service is ready; return its address, and note those of all events."""
    lines = []
    while line := await process.stderr.readline():
        lines.append(line.decode())
        if lines[-1].startswith("{") and "address" in (event := json.loads(line)):
            addresses[event["event"]] = event["address"]
            if event["event"] == "service.ready":
                return event["address"]
    raise AssertionError("".join(lines))


@asynccontextmanager
async def running(*arguments: str, addresses: dict[str, str] | None = None):
    process = await start(*arguments)
    try:
        yield process, await ready(process, {} if addresses is None else addresses)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_the_server_serves_the_champion_and_exits_cleanly_on_sigterm(tmp_path, store, game):
    network = new_network(game.spec(), SMALL, seed=1)
    version = export_network(store, game, network, SMALL, lineage=Lineage())
    store.write_champion(MODEL, version, epoch=1, reason="test")
    states, legal = sample_positions(game, games=2, seed=1)
    arguments, listening = ("--run-dir", str(tmp_path), "--model-store", str(store.root), "--http-address", "0"), {}
    async with running(*arguments, addresses=listening) as (process, address):
        assert address == f"unix:{tmp_path}/sockets/inference.sock"
        over_http = await ask(listening["http.listening"], json_request(as_json(states, legal)))
        async with KServeEvaluator(address, MODEL) as evaluator:
            answer = await evaluator.evaluate(LeafBatch(states, legal), version=ModelVersion(version))
        np.testing.assert_allclose(answer.policy.sum(axis=1), 1.0, atol=5e-3)
        policy = next(output for output in over_http.json["outputs"] if output["name"] == "policy__0")
        np.testing.assert_allclose(np.reshape(policy["data"], policy["shape"]), answer.policy, atol=2e-3)
        async with open_inference_channel(address) as channel:
            check = health_pb2.HealthCheckRequest(service="inference.GRPCInferenceService")
            assert (await health_pb2_grpc.HealthStub(channel).Check(check)).status == health_pb2.HealthCheckResponse.SERVING
        process.send_signal(signal.SIGTERM)
        _, log = await process.communicate()
        assert process.returncode == 0
        assert b"Traceback" not in log


async def test_models_are_loaded_over_tcp_with_a_token_from_a_file(tmp_path, store, game, monkeypatch):
    export_network(store, game, new_network(game.spec(), SMALL, seed=1), SMALL, lineage=Lineage())
    (tmp_path / "token").write_text("s3cret\n")
    monkeypatch.setenv("ZEROFLEET_TOKEN_FILE", str(tmp_path / "token"))
    async with (
        running("--model-store", str(store.root), "--address", "127.0.0.1:0") as (_, address),
        ModelControl(address, token="s3cret") as control,
    ):
        await control.serve(MODEL, [1])
        assert await control.loaded() == {MODEL: [1]}


async def test_a_port_in_use_fails_the_start_with_one_line(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        process = await start("--run-dir", str(tmp_path), "--address", address)
        _, log = await process.communicate()
    assert process.returncode == 2
    assert any(line.startswith(f"inference_server: cannot listen on {address}") for line in log.decode().splitlines())
    assert b"Traceback" not in log


async def test_a_folder_of_models_that_does_not_exist_is_named_before_the_server_is_ready(tmp_path):
    process = await start("--run-dir", str(tmp_path / "absent"), "--address", "127.0.0.1:0")
    try:
        events = []
        while not events or events[-1]["event"] != "service.ready":
            line = await process.stderr.readline()
            assert line, events
            if line.startswith(b"{"):
                events.append(json.loads(line))
    finally:
        process.kill()
        await process.communicate()
    (absent,) = [event for event in events if event["event"] == "models.absent"]
    assert (absent["level"], absent["path"]) == ("warning", str(tmp_path / "absent"))
