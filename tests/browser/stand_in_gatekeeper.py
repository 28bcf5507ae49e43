"""Gatekeeper of a run as a stand-in: it answers from attributes on one address, and is announced like the service.

Its process is another one that does nothing, so that each start has a process id of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import grpc

from zerofleet.contracts.promotions import Candidate, Champion, Rung, champion_to_wire
from zerofleet.contracts.wire import gatekeeper_pb2 as wire
from zerofleet.contracts.wire import gatekeeper_pb2_grpc as stubs
from zerofleet.storage.run_paths import RunPaths

__all__ = ["StandIn"]

_WAIT = [sys.executable, "-c", "import sys; sys.stdin.read()"]


class StandIn(stubs.GatekeeperServicer):
    """Gatekeeper between `start` and `stop`, any number of times."""

    def __init__(self, paths: RunPaths, model: str) -> None:
        """Create it; nothing is announced yet."""
        self.candidates: list[Candidate] = []
        self.champion: Champion | None = None
        self.rungs: list[Rung] = []
        self._paths = paths
        self._model = model
        self._port = 0
        self._server: grpc.Server | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Serve, on the port of the first start, and announce it."""
        self._server = grpc.server(ThreadPoolExecutor(4))
        stubs.add_GatekeeperServicer_to_server(self, self._server)
        self._port = self._server.add_insecure_port(f"127.0.0.1:{self._port}")
        self._server.start()
        self._process = subprocess.Popen(_WAIT, stdin=subprocess.PIPE)
        said = {"service": "gatekeeper", "pid": self._process.pid, "address": f"127.0.0.1:{self._port}", "metrics_port": 0}
        self._paths.services.mkdir(parents=True, exist_ok=True)
        self._paths.announce("gatekeeper").write_text(json.dumps(said))

    def stop(self) -> None:
        """End the process, as a crash does: the announce file stays."""
        if self._server is not None and self._process is not None:
            self._server.stop(grace=None).wait()
            self._process.communicate()
        self._server = self._process = None

    def ListModels(self, request: wire.ListModelsRequest, context: grpc.ServicerContext) -> wire.ListModelsReply:
        """List the candidates, as one page."""
        champion = None if self.champion is None else champion_to_wire(self.champion)
        return wire.ListModelsReply(models=[one.to_wire() for one in self.candidates], champion=champion, cursor="1")

    def GetLadder(self, request: wire.GetLadderRequest, context: grpc.ServicerContext) -> wire.Ladder:
        """Return the ladder."""
        return wire.Ladder(game=self._model, rungs=[rung.to_wire() for rung in self.rungs])
