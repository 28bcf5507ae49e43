"""A server with the networks of `fake_network` in a process of its own; writes its address and runs until it is killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from fake_network import FakeLoader

from inference_server.server import open_server
from inference_server.settings import ServerSettings
from zerofleet.service.settings import read_settings


async def main() -> None:
    settings, _ = read_settings(ServerSettings, ["--address=127.0.0.1:0", *sys.argv[1:]], {})
    async with open_server(settings, FakeLoader()) as server:
        sys.stdout.write(f"{server.address}\n")
        sys.stdout.flush()
        await server.grpc.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main())
