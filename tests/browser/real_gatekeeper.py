"""Gatekeeper of a run as its real process, which is killed and started again on its journal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import grpc

from zerofleet.contracts.promotions import Candidate
from zerofleet.contracts.wire import gatekeeper_pb2 as wire
from zerofleet.contracts.wire import gatekeeper_pb2_grpc as stubs
from zerofleet.storage.run_paths import RunPaths

__all__ = ["RealGatekeeper"]

TIMEOUT_S = 10.0


class RealGatekeeper:
    """Process of `python -m gatekeeper` between `start` and `kill`, any number of times."""

    def __init__(self, paths: RunPaths, model: str, directory: Path) -> None:
        """Create it; `directory` is the working directory of the process."""
        self._paths = paths
        self._model = model
        self._directory = directory
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the process, and return once it has announced itself. Raises `RuntimeError` with its log if it ends instead."""
        self._paths.services.mkdir(parents=True, exist_ok=True)
        command = [
            *(sys.executable, "-m", "gatekeeper", "--run-dir", str(self._paths.root), "--game", self._model),
            *("--preset", "tiny", "--address", "127.0.0.1:0", "--by-hand-only", "true", "--log-format", "json"),
            *("--announce", str(self._paths.announce("gatekeeper"))),
        ]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self._process = subprocess.Popen(command, cwd=self._directory, text=True, **pipes)
        log = []
        assert self._process.stdout is not None
        for line in self._process.stdout:
            log.append(line)
            if '"service.ready"' in line:
                return
        raise RuntimeError("the gatekeeper did not start:\n" + "".join(log))

    def kill(self) -> None:
        """Kill the process with SIGKILL; its announce file stays."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._process = None

    def submit(self, version: int, manifest_sha256: str) -> Candidate:
        """Submit a stored version, as a trainer does."""
        address = json.loads(self._paths.announce("gatekeeper").read_text())["address"]
        request = wire.SubmitCandidateRequest(game=self._model, version=version, manifest_sha256=manifest_sha256)
        with grpc.insecure_channel(address) as channel:
            return Candidate.from_wire(stubs.GatekeeperStub(channel).SubmitCandidate(request, timeout=TIMEOUT_S))
