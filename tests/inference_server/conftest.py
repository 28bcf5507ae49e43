"""A server in this event loop over real gRPC, with the networks of `fake_network`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from tritonclient.grpc import service_pb2_grpc

import games
from games.core import Game, make
from inference_server.server import open_server
from inference_server.settings import ServerSettings
from zerofleet.contracts.encodings import sample_positions
from zerofleet.evaluators.base import LeafBatch
from zerofleet.presets import InferenceSettings
from zerofleet.rpc.inference_channels import open_inference_channel
from zerofleet.storage.model_store import DirectoryStore

assert games
sys.path.insert(0, str(Path(__file__).parent))

from block_peers import Peer  # noqa: E402 - they stand beside this file
from fake_network import MODEL, FakeLoader, Wire, publish_version  # noqa: E402


@pytest.fixture(scope="session")
def game() -> Game:
    return make("tic_tac_toe")


@pytest.fixture(scope="session")
def positions(game) -> tuple[np.ndarray, np.ndarray]:
    """Distinct positions of random games: states uint8 [N, packed_bytes], legal int16 [N, L]."""
    states, legal = sample_positions(game, games=40, seed=5)
    _, first = np.unique(states, axis=0, return_index=True)
    return states[first], legal[first]


@pytest.fixture
def loader() -> FakeLoader:
    return FakeLoader()


@pytest.fixture
def store(tmp_path) -> DirectoryStore:
    return DirectoryStore(tmp_path / "models")


@pytest.fixture
def publish(store, game) -> Callable[[], int]:
    """Store another version with these extra heads."""

    def add(*heads: str) -> int:
        return publish_version(store, game, *heads)

    return add


@pytest.fixture
def open_wire(store, loader) -> Callable[..., AsyncIterator[Wire]]:
    """A context manager of a server with these settings and no model yet, and its client."""

    @asynccontextmanager
    async def wire(*, starting=False, **settings) -> AsyncIterator[Wire]:
        parts = {"max_batch": 64, "max_delay_us": 0, "front_ends": 0}
        part = InferenceSettings(**{name: settings.pop(name, value) for name, value in parts.items()})
        settings = {"address": "127.0.0.1:0", "model_store": store.root, "inference": part, **settings}
        async with open_server(ServerSettings(**settings), loader, starting=starting) as server:
            channel = open_inference_channel(server.address)
            async with channel:
                yield Wire(server, service_pb2_grpc.GRPCInferenceServiceStub(channel), channel)

    return wire


@pytest.fixture
async def wire(open_wire, publish) -> AsyncIterator[Wire]:
    """A server of version 1, and its client."""
    version = publish()
    async with open_wire() as running:
        await running.server.plane.registry.serve(MODEL, [version])
        yield running


# -- HTTP


@pytest.fixture
async def served(open_wire, publish) -> AsyncIterator[Wire]:
    """A server of version 1 with HTTP, and its client."""
    version = publish()
    async with open_wire(http_address="127.0.0.1:0") as running:
        await running.server.plane.registry.serve(MODEL, [version])
        yield running


@pytest.fixture
def http_address(served) -> str:
    """The address of `served` for HTTP."""
    return served.server.http.address


# -- shared memory


@pytest.fixture
def address() -> Iterator[str]:
    """An address for a server, with a path short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="zf-") as directory:
        yield f"unix:{directory}/inference.sock"


@pytest.fixture
def open_near(open_wire, address) -> Callable[..., AsyncIterator[Wire]]:
    """A context manager of a server of version 1 at `address`."""

    @asynccontextmanager
    async def near(**settings) -> AsyncIterator[Wire]:
        async with open_wire(address=address, **settings) as wire:
            await wire.server.plane.registry.serve(MODEL, [1])
            yield wire

    return near


@pytest.fixture
async def near(open_near, publish) -> AsyncIterator[Wire]:
    publish("opponents", "plies_left")
    async with open_near() as wire:
        yield wire


@pytest.fixture
def leaves(positions) -> LeafBatch:
    states, legal = positions
    return LeafBatch(states[:8].copy(), legal[:8].copy())


@pytest.fixture
def knock(address) -> Iterator[Callable[[], Peer]]:
    """Connect a peer to the server, until the end of the test."""
    peers = []

    def connect() -> Peer:
        peers.append(Peer(address))
        return peers[-1]

    yield connect
    for peer in peers:
        peer.socket.close()


@pytest.fixture
async def peer(near, knock) -> Peer:
    peer = knock()
    await peer.greet()
    return peer
