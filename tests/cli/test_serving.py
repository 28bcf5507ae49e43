from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import psutil
import pytest

from games.core import make
from zerofleet.errors import ModelNotFound, Unavailable
from zerofleet.evaluators.base import LeafBatch, ModelVersion
from zerofleet.evaluators.kserve import KServeEvaluator
from zerofleet.rpc.gatekeeper_client import GatekeeperClient
from zerofleet.storage.runs import RunDirectory, RunPaths
from zerofleet.supervisor.borrowed import _started, champion_version, gatekept, live_address, served


@pytest.fixture
def run(tmp_path):
    RunDirectory.create_or_open(tmp_path / "run", "tic_tac_toe", {}, preset="tiny", seed=1).close()
    return RunPaths(tmp_path / "run")


def announce(run, pid, address="unix:/somewhere"):
    run.announce("inference_server").write_text(json.dumps({"pid": pid, "address": address, "metrics_port": 0}))


def test_the_address_of_a_live_process_is_returned(run):
    announce(run, os.getpid())
    assert live_address(run, "inference_server") == "unix:/somewhere"


@pytest.mark.parametrize(
    ("announced", "reached"),
    [
        ("0.0.0.0:8002", "localhost:8002"),
        ("[::]:8002", "localhost:8002"),
        ("127.0.0.1:8002", "127.0.0.1:8002"),
        ("gate.example:8002", "gate.example:8002"),
    ],
)
def test_a_server_bound_to_all_addresses_is_reached_by_a_name_of_its_certificate(run, announced, reached):
    announce(run, os.getpid(), announced)
    assert live_address(run, "inference_server") == reached


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x"}', '{"pid": 1}'])
def test_an_unreadable_announcement_is_ignored(run, text):
    run.announce("inference_server").write_text(text)
    assert live_address(run, "inference_server") is None


def test_the_address_of_an_ended_process_is_ignored(run):
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    announce(run, child.pid)
    assert live_address(run, "inference_server") is None
    assert live_address(run, "gatekeeper") is None


def test_the_address_of_another_container_is_ignored(run):
    says = {"pid": os.getpid(), "pid_namespace": "pid:[1]", "address": "0.0.0.0:8001", "metrics_port": 0}
    run.announce("inference_server").write_text(json.dumps(says))
    assert live_address(run, "inference_server") is None


def test_the_error_for_a_run_without_a_champion_names_a_remedy(run):
    with pytest.raises(ModelNotFound, match=r"no champion of tic_tac_toe yet; continue the run, or name a version"):
        champion_version(run, make("tic_tac_toe"))


async def test_a_missing_version_is_rejected_before_a_server_is_started(run):
    with pytest.raises(ModelNotFound, match="7"):
        async with served(run, make("tic_tac_toe"), versions=[7]):
            pass


@pytest.mark.slow
async def test_the_error_for_a_service_that_fails_to_start_shows_its_output(run):
    with pytest.raises(Unavailable, match=r"no_such_service could not be started: it exited with 1\n.*No module named"):
        async with _started("no_such_service", run, make("tic_tac_toe")):
            pass


@pytest.mark.slow
async def test_a_borrowed_server_answers_and_is_stopped(run_with_champion):
    game = make("tic_tac_toe")
    before = {child.pid for child in psutil.Process().children()}
    async with served(RunPaths(run_with_champion), game) as address:
        assert len({child.pid for child in psutil.Process().children()} - before) == 1
        async with KServeEvaluator(address, "tic_tac_toe") as evaluator:
            batch = LeafBatch(np.zeros((1, game.spec().packed_bytes), np.uint8), np.arange(9, dtype=np.int16)[None])
            answer = await evaluator.evaluate(batch, version=ModelVersion(1))
            assert answer.version == 1
        announce(RunPaths(run_with_champion), os.getpid(), address)
        async with served(RunPaths(run_with_champion), game, once=True) as again:
            assert again == address
    assert {child.pid for child in psutil.Process().children()} <= before
    RunPaths(run_with_champion).announce("inference_server").unlink()


@pytest.mark.slow
async def test_a_gatekeeper_that_was_borrowed_knows_the_champion(run_with_champion):
    borrowed = gatekept(RunPaths(run_with_champion), make("tic_tac_toe"), self_tests=False)
    async with borrowed as address, GatekeeperClient(address) as gatekeeper:
        champion = await gatekeeper.champion("tic_tac_toe")
    assert champion is not None
    assert champion.version == 1
