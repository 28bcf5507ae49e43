"""The examples of docs/protocol.md run as they stand."""

from __future__ import annotations

import asyncio
import io
import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from raw_http import ask, get, post

from games.core import make
from inference_server.server import open_server
from inference_server.settings import ServerSettings
from trainer.export import Lineage, export_network
from trainer.network import new_network
from zerofleet.presets import NetworkSettings

DOCUMENT = Path(__file__).parents[2] / "docs" / "protocol.md"
SMALL = NetworkSettings(blocks=1, channels=8, policy_channels=2, value_channels=2, value_hidden=8)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.slow
async def test_the_example_of_the_document_prints_an_evaluation(store):
    example = blocks("python")[0]
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


async def test_the_example_over_http_prints_an_evaluation(open_wire, publish):
    example = blocks("python")[1]
    publish()
    async with open_wire(http_address="127.0.0.1:0") as wire:
        await wire.server.plane.registry.serve("tic_tac_toe", [1])
        program = example.replace("127.0.0.1:8000", wire.server.http.address)
        said = io.StringIO()
        await asyncio.to_thread(exec, program, {"print": lambda *words: print(*words, file=said)})
    assert re.fullmatch(r"version 1 value \[0\.\d+, -0\.\d+\]\n", said.getvalue())


async def test_the_examples_of_curl_get_the_answers_of_the_page(open_wire, publish):
    (session,) = [block for block in blocks("console") if "$ curl" in block]
    lines = session.splitlines()
    publish()
    async with open_wire(http_address="127.0.0.1:0") as wire:
        await wire.server.plane.registry.serve("tic_tac_toe", [1])
        for command, shown in zip(lines[::2], lines[1::2], strict=True):
            reply = await ask(wire.server.http.address, curl(command))
            said, want = reply.json, json.loads(shown)
            for output in want.get("outputs", ()) if "infer" in command else ():
                output["data"] = next(o["data"] for o in said["outputs"] if o["name"] == output["name"])  # of another network
            assert said == want, command


def curl(line: str) -> bytes:
    """The request that a line `$ curl -s URL [-d BODY]` sends."""
    prompt, program, silent, url, *rest = shlex.split(line)
    assert (prompt, program, silent) == ("$", "curl", "-s")
    path = url.removeprefix("http://127.0.0.1:8000")
    if not rest:
        return get(path)
    option, body = rest
    assert option == "-d"
    return post(body.encode(), "Content-Type: application/x-www-form-urlencoded", path=path)
