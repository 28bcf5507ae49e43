"""Layout of a run directory: files and sockets of each service.

run.json           game, parameters, preset, seed, schema       sockets/    unix sockets of the services
experiment.toml    every setting of the run                      services/   announce files
models/            model store                                   logs/       one file per service
replay/            the trainer's samples and checkpoints         metrics/    history as JSON lines and CSV
games.db           SQLite stream of finished games               lock        held while `zerofleet run` uses it
gatekeeper/        match results and ladder                      warm_start  progress of the warm start
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from zerofleet.storage.sqlite_address import sqlite_address

__all__ = ["RUNS", "RunPaths"]

RUNS = Path("runs")
"""Folder of runs below the working directory."""

# sun_path of a unix socket holds 108 bytes with its terminator; gRPC needs a few.
LONGEST_SOCKET_PATH = 100
# With a meaning in gRPC's targets, of which server and client take different ones for part of a path.
_NOT_IN_TARGETS = frozenset(",#?%")


@dataclass(frozen=True, slots=True)
class RunPaths:
    """Paths and addresses derived from the root of a run."""

    root: Path

    @property
    def header(self) -> Path:
        """Header of the run."""
        return self.root / "run.json"

    @property
    def experiment(self) -> Path:
        """Experiment file with every setting of the run."""
        return self.root / "experiment.toml"

    @property
    def lock(self) -> Path:
        """Lock file, locked while a supervisor uses the run."""
        return self.root / "lock"

    @property
    def models(self) -> Path:
        """Model store."""
        return self.root / "models"

    @property
    def model_cache(self) -> Path:
        """Local copies of models in an object store."""
        return self.root / "model_cache"

    @property
    def replay(self) -> Path:
        """The trainer's samples and checkpoints."""
        return self.root / "replay"

    @property
    def gatekeeper(self) -> Path:
        """Match results and ladder."""
        return self.root / "gatekeeper"

    @property
    def logs(self) -> Path:
        """Log files, one per service."""
        return self.root / "logs"

    @property
    def metrics(self) -> Path:
        """History of the run as JSON lines and CSV."""
        return self.root / "metrics"

    @property
    def services(self) -> Path:
        """Announce files."""
        return self.root / "services"

    @property
    def games(self) -> Path:
        """SQLite file of the stream of finished games."""
        return self.root / "games.db"

    @property
    def warm_start(self) -> Path:
        """File by which the workers of one machine divide the games of the warm start."""
        return self.root / "warm_start"

    @property
    def stream_url(self) -> str:
        """URL of the stream, for `open_stream`."""
        return sqlite_address(self.games.absolute())

    @property
    def sockets(self) -> Path:
        """Directory of the unix sockets: in the run, or a short private path if that one is no address of gRPC."""
        inside = self.root.absolute() / "sockets"
        longest = inside / "gatekeeper.sock"
        if len(os.fsencode(longest)) <= LONGEST_SOCKET_PATH and _NOT_IN_TARGETS.isdisjoint(str(longest)):
            return inside
        digest = hashlib.sha256(os.fsencode(inside)).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"zerofleet-{os.getuid()}-{digest}"

    @property
    def inference_address(self) -> str:
        """gRPC address of the inference server."""
        return f"unix:{self.sockets / 'inference.sock'}"

    def device_address(self, index: int) -> str:
        """Return the gRPC address of one of several inference servers; the name is no longer than the gatekeeper's."""
        return f"unix:{self.sockets / f'device-{index}.sock'}"

    @property
    def gatekeeper_address(self) -> str:
        """gRPC address of the gatekeeper."""
        return f"unix:{self.sockets / 'gatekeeper.sock'}"

    def announce(self, service: str) -> Path:
        """File in which a service publishes its readiness and addresses."""
        return self.services / f"{service}.json"

    def log(self, service: str) -> Path:
        """Log file of a service."""
        return self.logs / f"{service}.log"
