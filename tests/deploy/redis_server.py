"""A real redis-server with the configuration of the cluster and a file of users, on a socket."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from manifests import ROOT


@contextmanager
def serving(directory: Path, users: str) -> Iterator[Path]:
    """Run it with these users and its files in a directory; yields the socket."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.fail("redis-server is not installed; this test needs a real one (Debian: apt-get install redis-server)")
    (directory / "users.acl").write_text(users)
    here = {"dir": str(directory), "aclfile": str(directory / "users.acl"), "port": "0"}
    lines = (ROOT / "deploy/redis/redis.conf").read_text().splitlines()
    given = [f"{word} {here[word]}" if (word := line.partition(" ")[0]) in here else line for line in lines]
    (directory / "redis.conf").write_text("\n".join(given) + "\n")
    socket = Path("/tmp") / f"zf-{directory.parent.name[-20:]}-{directory.name[-20:]}.sock"  # a path of a socket must be short
    command = [program, str(directory / "redis.conf"), "--unixsocket", str(socket)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if "eady to accept connections" in line:
                break
        else:
            pytest.fail("redis-server did not start:\n" + "".join(said))
        try:
            yield socket
        finally:
            process.kill()  # also when the test fails, which would wait for its end otherwise
            socket.unlink(missing_ok=True)
