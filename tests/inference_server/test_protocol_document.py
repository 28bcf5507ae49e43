"""The example of docs/protocol.md runs as it stands."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest

from games.core import make
from inference_server.server import open_server
from inference_server.settings import ServerSettings
from trainer.export import Lineage, export_network
from trainer.network import new_network
from zerofleet.presets import NetworkSettings

DOCUMENT = Path(__file__).parents[2] / "docs" / "protocol.md"
SMALL = NetworkSettings(blocks=1, channels=8, policy_channels=2, value_channels=2, value_hidden=8)


@pytest.mark.slow
async def test_the_example_of_the_document_prints_an_evaluation(store):
    (example,) = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    game = make("connect_four")
    version = export_network(store, game, new_network(game.spec(), SMALL, seed=1), SMALL, lineage=Lineage())
    async with open_server(ServerSettings(address="127.0.0.1:0", model_store=store.root)) as server:
        await server.plane.registry.serve("connect_four", [version])
        program = example.replace("127.0.0.1:8001", server.address)
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
        said = (await process.communicate())[0].decode().splitlines()
    assert process.returncode == 0
    assert said[0] == "version 1"
    assert said[1].startswith("value for the player to move")
    assert [line.split()[0] for line in said[2:]] == ["a1", "b1", "c2", "d3", "e1", "f1", "g1"]
    assert sum(float(line.split()[1]) for line in said[2:]) == pytest.approx(1.0, abs=0.01)
