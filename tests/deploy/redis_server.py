"""A real server of Redis' protocol with the configuration of the cluster and a file of users, on a socket."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from manifests import ROOT

sys.path.insert(0, str(ROOT / "tests/streams"))

import redis_programs


@contextmanager
def serving(directory: Path, users: str) -> Iterator[Path]:
    """Run it with these users and its files in a directory; yields the socket."""
    (directory / "users.acl").write_text(users)
    here = {"dir": str(directory), "aclfile": str(directory / "users.acl"), "port": "0"}
    lines = (ROOT / "deploy/redis/redis.conf").read_text().splitlines()
    given = [f"{word} {here[word]}" if (word := line.partition(" ")[0]) in here else line for line in lines]
    (directory / "redis.conf").write_text("\n".join(given) + "\n")
    socket = Path("/tmp") / f"zf-{directory.parent.name[-20:]}-{directory.name[-20:]}.sock"  # a path of a socket must be short
    command = [redis_programs.program().path, str(directory / "redis.conf"), "--unixsocket", str(socket)]
    with redis_programs.start(command) as process:
        try:
            yield socket
        finally:
            process.kill()  # also when the test fails, which would wait for its end otherwise
            socket.unlink(missing_ok=True)
