"""A cluster under `docker compose`, as the tests see it: started, looked at, hurt, and read out at the end.

Its tests take many minutes and a Docker engine: they run when they are named (make compose-test).
"""

from __future__ import annotations

import io
import json
import os
import secrets
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import docker
import pytest
from docker.models.containers import Container

from zerofleet.supervisor.pages import MetricsPage

ROOT = Path(__file__).parents[2]
SERVICES = ("redis", "inference_server", "gatekeeper", "trainer", "selfplay_worker")
# All but the init process, which ends then; unlike `docker kill` it is no request to stay down.
KILL_ALL = ["sh", "-c", "kill -9 -1"]
PROMETHEUS = "zerofleet/test_prometheus"
READ_METRICS = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9100/metrics', timeout=5).read().decode())"


def pytest_ignore_collect(collection_path: Path, config):
    """Leave the cluster's tests out unless a path below this folder was asked for."""
    if collection_path.name != "test_cluster.py":
        return None
    return None if any("tests/compose" in argument for argument in config.args) else True


class Cluster:
    """One project of docker compose with names, ports and volumes of its own."""

    files: tuple[str, ...] = ("docker-compose.yml", "tests/compose/whole_log.yml")

    def __init__(self, game: str, preset: str, *, project: str = "") -> None:
        self.project = project or f"zerofleet-test-{secrets.token_hex(4)}"
        self.docker = docker.from_env()
        self._environment = os.environ | {
            "ZEROFLEET_GAME": game,
            "ZEROFLEET_PRESET": preset,
            "ZEROFLEET_INFERENCE_PORT": "0",
            "ZEROFLEET_GATEKEEPER_PORT": "0",
            "ZEROFLEET_PROMETHEUS_PORT": "0",
            "ZEROFLEET_UI_PORT": "0",
            "ZEROFLEET_PROMETHEUS_IMAGE": PROMETHEUS,
        }

    def build(self) -> None:
        """Build the images, that of the pages too, and one of Debian's Prometheus."""
        self.compose("--profile", "ui", "build")  # else `up` takes an image of the pages that an earlier release left
        network = os.environ.get("ZEROFLEET_BUILD_NETWORK", "default")
        self.docker.images.build(path=str(Path(__file__).parent / "prometheus"), tag=PROMETHEUS, network_mode=network)

    def compose(self, *arguments: str) -> None:
        """Run `docker compose`; raises with its output when it fails."""
        files = [word for file in self.files for word in ("--file", file)]
        command = ["docker", "compose", "--project-name", self.project, *files, *arguments]
        done = subprocess.run(command, cwd=ROOT, env=self._environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"

    def containers(self, service: str) -> list[Container]:
        labels = [f"com.docker.compose.project={self.project}", f"com.docker.compose.service={service}"]
        return self.docker.containers.list(all=True, filters={"label": labels})

    def container(self, service: str) -> Container:
        (found,) = self.containers(service)
        return found

    def address(self, service: str, port: int) -> str:
        """Where a port of a service is published on this machine."""
        (published,) = self.container(service).attrs["NetworkSettings"]["Ports"][f"{port}/tcp"]
        assert published["HostIp"] == "127.0.0.1"
        return f"127.0.0.1:{published['HostPort']}"

    def prometheus(self, path: str, **parameters: str) -> Any:
        """What Prometheus answers to a question of its HTTP interface; None while it takes none."""
        url = f"http://{self.address('prometheus', 9090)}/api/v1/{path}?{urlencode(parameters)}"
        try:
            with urlopen(url, timeout=10) as reply:
                return json.load(reply)["data"]
        except OSError:
            return None

    def page(self, path: str, token: str = "", body: Any = None) -> tuple[int, str]:
        """Return status and text of a page or value of the web application; a body is posted as JSON. Raises `OSError`."""
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        data = None if body is None else json.dumps(body).encode()
        try:  # the first list of games compiles the rules, beside services that use every core
            with urlopen(Request(f"http://{self.address('ui', 8765)}{path}", data, headers), timeout=120) as reply:
                return reply.status, reply.read().decode()
        except HTTPError as refused:
            return refused.code, refused.read().decode()

    def is_healthy(self) -> bool:
        return all(c.attrs["State"].get("Health", {}).get("Status") == "healthy" for s in SERVICES for c in self.containers(s))

    def metrics(self, service: str) -> MetricsPage:
        code, output = self.container(service).exec_run(["python", "-c", READ_METRICS])
        return MetricsPage(output.decode() if code == 0 else "")

    def games_stored(self) -> int:
        return round(self.metrics("trainer").total("zerofleet_replay_games_ever"))

    def champion(self) -> int:
        return round(self.metrics("gatekeeper").total("zerofleet_champion_version"))

    def copy(self, service: str, path: str, to: Path) -> Path:
        """Copy a folder out of a container; return where it lies."""
        chunks, _ = self.container(service).get_archive(path)
        with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
            archive.extractall(to, filter="data")
        return to / Path(path).name

    def wait(self, what: str, done: Callable[[], bool], *, seconds: float) -> float:
        """Look until `done`; return the seconds it took. Fails with the state of all containers."""
        began_s = time.monotonic()
        pause = threading.Event()
        while time.monotonic() - began_s < seconds:
            try:
                if done():
                    return time.monotonic() - began_s
            except docker.errors.APIError:  # a container is just being replaced or started again
                pass
            pause.wait(0.5)
        raise AssertionError(f"not within {seconds:g} s: {what}\n{self.report()}")

    def wait_for_recovery(self, *, seconds: float = 240.0) -> None:
        """Wait until every service is healthy and a game has been stored that was not there before."""
        self.wait("every service is healthy", self.is_healthy, seconds=seconds)
        before = self.games_stored()
        self.wait(f"more than {before} games stored", lambda: self.games_stored() > before, seconds=seconds)

    def report(self) -> str:
        lines = []
        for container in (c for service in SERVICES for c in self.containers(service)):
            state = container.attrs["State"]
            lines += [f"{container.name}: {state['Status']} {state.get('Health', {}).get('Status')} exit {state['ExitCode']}"]
            lines += [f"    {line}" for line in container.logs(tail=8).decode(errors="replace").splitlines()]
        return "\n".join(lines)

    def kill(self, service: str) -> None:
        """End every process of a service at once, as a crash does."""
        self.container(service).exec_run(KILL_ALL)

    def published(self, to: Path) -> list[str]:
        """Return the uid of every game that was ever added to the stream, in order, from Redis' append-only file."""
        files = self.copy("redis", "/var/lib/zerofleet/appendonlydir", to)
        return [uid for file in sorted(files.glob("*.incr.aof")) for uid in added(file, b"games")]


def added(append_only: Path, stream: bytes) -> Iterator[str]:
    """Yield the uid of every XADD to a stream; a command cut short at the end is passed over by Redis and here."""
    with append_only.open("rb") as data:
        while (head := data.readline()).startswith(b"*"):
            words = [data.read(int(data.readline()[1:]) + 2)[:-2] for _ in range(int(head[1:]))]
            if words[0].upper() == b"XADD" and words[1] == stream:
                yield words[words.index(b"uid") + 1].decode()


@pytest.fixture(scope="module")
def cluster():
    cluster = Cluster("connect_four", "tiny")
    cluster.build()
    try:
        yield cluster
    finally:
        cluster.compose("--profile", "observability", "--profile", "ui", "down", "--volumes", "--timeout", "5")
