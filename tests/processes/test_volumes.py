"""Services as a cluster starts them: each by itself, on an empty volume of its own, in whatever order."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1100)]  # a machine that is loaded takes minutes


class Cluster:
    """Services of tic-tac-toe that share a store and a stream, and nothing else."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.processes: dict[str, asyncio.subprocess.Process] = {}

    def volume(self, service: str) -> Path:
        return self.root / service

    async def start(self, service: str, **settings: str) -> None:
        """Start a service on an empty volume, or on what it has left there."""
        (self.volume(service) / "lost+found").mkdir(parents=True, exist_ok=True)
        sockets = {name: f"unix:{self.root}/{name}.sock" for name in ("inference_server", "gatekeeper")}
        variables = {
            "ZEROFLEET_GAME": "tic_tac_toe",
            "ZEROFLEET_PRESET": "tiny",
            "ZEROFLEET_LOG_FORMAT": "json",
            "ZEROFLEET_RUN_DIR": str(self.volume(service)),
            "ZEROFLEET_MODEL_STORE": str(self.volume("gatekeeper") / "models"),
            "ZEROFLEET_ANNOUNCE": str(self.volume(service) / f"services/{service}.json"),
            "ZEROFLEET_INFERENCE_ADDRESS": sockets["inference_server"],
            "ZEROFLEET_GATEKEEPER_ADDRESS": sockets["gatekeeper"],
            "ZEROFLEET_STREAM_URL": f"sqlite:///{self.root}/games.db",
            **({"ZEROFLEET_ADDRESS": sockets[service]} if service in sockets else {}),
            **settings,
        }
        self.processes[service] = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", service), env={**os.environ, **variables}, stderr=asyncio.subprocess.PIPE
        )

    async def until(self, service: str, event: str) -> dict[str, object]:
        """Read a service's log to an event and return it."""
        lines = []
        stderr = self.processes[service].stderr
        assert stderr is not None
        while line := (await stderr.readline()).decode():
            lines.append(line)
            if line.startswith("{") and (found := json.loads(line))["event"] == event:
                return dict(found)
        raise AssertionError(f"{service} ended without {event}:\n" + "".join(lines))

    async def refusal(self, service: str) -> str:
        """Wait for a service that refuses to start; return what it says."""
        _, log = await self.processes.pop(service).communicate()
        return log.decode()

    async def end(self) -> None:
        for process in self.processes.values():
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            await process.communicate()


@pytest.fixture
def open_cluster(tmp_path: Path) -> Callable[[], object]:
    @asynccontextmanager
    async def start() -> AsyncIterator[Cluster]:
        cluster = Cluster(tmp_path)
        try:
            async with asyncio.timeout(240):
                yield cluster
        finally:
            await cluster.end()

    return start


async def test_a_fleet_starts_on_empty_volumes_lists_its_models_and_refuses_another_game(open_cluster) -> None:
    async with open_cluster() as cluster:
        for service in ("trainer", "gatekeeper", "inference_server"):
            await cluster.start(service)
        settled = await cluster.until("gatekeeper", "candidate.settled")
        assert (settled["version"], settled["status"]) == (1, "promoted")
        for service in ("trainer", "gatekeeper"):
            assert json.loads((cluster.volume(service) / "run.json").read_text())["game"] == "tic_tac_toe"
        listing = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", "from zerofleet.cli import main; main()", "models", "list", "tic_tac_toe", "--json"),
            *("--run-dir", str(cluster.volume("gatekeeper"))),
            stdout=asyncio.subprocess.PIPE,
        )
        (model,) = json.loads((await listing.communicate())[0])["versions"]
        assert (model["version"], model["status"]) == (1, "champion")

        await cluster.end()
        for service in ("gatekeeper", "trainer"):
            await cluster.start(service, ZEROFLEET_GAME="connect_four")
        for service in ("gatekeeper", "trainer"):
            assert "is a run of tic_tac_toe, not of connect_four" in await cluster.refusal(service)
