"""The cluster of the compose tests as a soak needs it: own disks and clocks, memory by container, and lines of logs."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import docker
import soak_machine as machine
from docker.models.containers import Container
from soak_disks import DISKS, Disks

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
MIB = 1 << 20


def _compose_tests():
    """Load the module of the compose tests' cluster, which is named conftest as others are."""
    spec = importlib.util.spec_from_file_location("compose_cluster", ROOT / "tests/compose/conftest.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


compose = _compose_tests()
SERVICES: tuple[str, ...] = compose.SERVICES


class SoakCluster(compose.Cluster):
    """A project of docker compose that is looked at for a long time."""

    def __init__(self, game: str, preset: str, folder: Path, disks: Disks, *, workers: int, project: str) -> None:
        super().__init__(game, preset, project=project)
        self.workers = workers
        self._clocks = folder / "clocks"
        self.clock_missing = machine.build_clock(self._clocks)
        override = folder / "cluster.json"
        override.write_text(json.dumps(compose_override(disks, None if self.clock_missing else self._clocks)))
        self.files = ("docker-compose.yml", "tests/soak/cluster.yml", str(override))
        self._read_to: dict[str, str] = {}
        for service in SERVICES:
            machine.set_clock(self.clock(service), 0)

    def clock(self, service: str) -> Path:
        """Return the file by which the wall clock of a service differs from this machine's."""
        return self._clocks / f"{service}.shift"

    def up(self) -> None:
        """Start everything."""
        self.compose("up", "--detach", "--scale", f"selfplay_worker={self.workers}")

    def all_containers(self) -> Iterator[tuple[str, Container]]:
        """Yield each container with the name of its service."""
        for service in SERVICES:
            for container in self.containers(service):
                yield service, container

    def end(self) -> None:
        """Remove the containers, frozen ones too, and keep the volumes."""
        for _, container in self.all_containers():
            if container.status == "paused":
                container.unpause()
        self.compose("down", "--timeout", "20")

    def new_lines(self, container: Container) -> Iterator[tuple[datetime, str]]:
        """Yield what a container has logged since the last call, with the time at which the engine got it."""
        last = self._read_to.get(container.id, "")
        since = {"since": parse_time(last).timestamp()} if last else {}
        for raw in container.logs(timestamps=True, **since).decode(errors="replace").splitlines():
            stamp, _, text = raw.partition(" ")
            if stamp > last:
                self._read_to[container.id] = stamp
                yield parse_time(stamp), text

    def memory_mib(self, container: Container) -> float | None:
        """Return what the processes of a container hold; None when it is not running."""
        try:
            found = self.docker.api.stats(container.id, stream=False, one_shot=True)["memory_stats"]["stats"]
        except (KeyError, docker.errors.APIError):
            return None
        held = found["anon"] + found.get("shmem", 0) if "anon" in found else found.get("total_rss", found.get("rss"))
        return None if held is None else held / MIB


def compose_override(disks: Disks, clocks: Path | None) -> dict[str, object]:
    """Return what a compose file sets so that the volumes lie on `disks` and every service has a clock of its own."""
    bound = {disk: {"driver_opts": {"type": "none", "o": "bind", "device": str(disks.path(disk))}} for disk in DISKS}
    if clocks is None:
        return {"volumes": bound}
    environment = {"LD_PRELOAD": "/soak/jumping_clock.so"}
    services = {
        name: {
            "environment": environment | {"SOAK_CLOCK": f"/soak/{name}.shift"},
            "volumes": [{"type": "bind", "source": str(clocks), "target": "/soak", "read_only": True}],
        }
        for name in SERVICES
    }
    return {"volumes": bound, "services": services}


def parse_time(text: str) -> datetime:
    """Return a moment as the engine writes it, with up to nine digits of a second."""
    return datetime.fromisoformat(re.sub(r"(\.\d{6})\d*", r"\1", text).replace("Z", "+00:00"))
