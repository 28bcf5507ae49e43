"""A network that can be stopped, broken and recognised by its answers, and a raw client of a server of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np
import pytest
from safetensors.numpy import save
from tritonclient.grpc import service_pb2, service_pb2_grpc

from games.core import Game
from inference_server.server import RunningServer
from zerofleet.contracts.encodings import sample_positions
from zerofleet.contracts.manifests import Golden
from zerofleet.errors import CorruptModel
from zerofleet.evaluators.uniform import uniform_policy
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.testing.models import manifest_of, sample_archive

MODEL = "tic_tac_toe"
ACTIONS = 9


def expected_value(states: np.ndarray, legal: np.ndarray, version: int) -> np.ndarray:
    """What version `version` of the fake network says: a number that no other position or version shares by chance."""
    weights = np.arange(1, states.shape[1] + 1) * 37 + 11
    mixed = (
        states.astype(np.int64) @ weights + legal.astype(np.int64) @ np.arange(1, legal.shape[1] + 1) * 101 + version * 7919
    ) % 9973
    return np.stack([mixed / 9973, -mixed / 9973], axis=1).astype(np.float32)


@dataclass
class FakeNetwork:
    """Answers by `expected_value`; `gate` holds the device thread inside `evaluate`.

    Of extra heads it says: every opponent chooses its action 0, and the share of plies left is the value of the other side.
    """

    version: int
    gate: threading.Event
    entered: threading.Event
    extra_heads: tuple[str, ...] = ()
    backend: str = "fake"
    precision: str = "float32"
    batches: list[list[int]] = field(default_factory=list)
    fault: Callable[[np.ndarray], Exception | None] = lambda states: None

    def evaluate(self, states: list[np.ndarray], legal: list[np.ndarray]) -> tuple[np.ndarray, ...]:
        self.entered.set()
        assert self.gate.wait(60)
        self.batches.append([len(rows) for rows in states])
        all_states, all_legal = np.concatenate(states), np.concatenate(legal)
        if (error := self.fault(all_states)) is not None:
            raise error
        value = expected_value(all_states, all_legal, self.version)
        first = np.eye(1, ACTIONS, dtype=np.float16)
        extra = {"opponents": np.repeat(first, len(value), axis=0), "plies_left": value[:, 1:]}
        return uniform_policy(all_legal), value, *(extra[head] for head in self.extra_heads)


class FakeLoader:
    """Loads `FakeNetwork`s; `broken` versions are refused, `loading` is set while `hold` delays a load."""

    slots = 1

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.broken: set[int] = set()
        self.networks: dict[int, FakeNetwork] = {}
        self.hold = threading.Event()
        self.hold.set()
        self.loading = threading.Event()

    def load(self, path, manifest, *, max_batch: int) -> FakeNetwork:
        self.loading.set()
        assert self.hold.wait(60)
        assert path.is_file()
        if manifest.version in self.broken:
            raise CorruptModel(f"version {manifest.version} is broken on purpose")
        network = FakeNetwork(manifest.version, self.gate, self.entered, manifest.heads[2:])
        self.networks[manifest.version] = network
        return network


@dataclass
class Wire:
    """A server and the raw stub of a client of it."""

    server: RunningServer
    stub: service_pb2_grpc.GRPCInferenceServiceStub
    channel: grpc.aio.Channel

    async def infer(self, states: np.ndarray, legal: np.ndarray, *, version: str = "", timeout_s: float = 60.0):
        """Send positions and return version and value of the reply."""
        reply = await self.stub.ModelInfer(infer_request(states, legal, version=version), timeout=timeout_s)
        value = np.frombuffer(reply.raw_output_contents[1], "<f4").reshape(len(states), 2)
        return reply.model_version, value

    def waiting_rows(self) -> int:
        """Rows that wait for the device."""
        return self.server.plane._batcher.waiting_rows


def infer_request(states: np.ndarray, legal: np.ndarray, *, version: str = "", model: str = MODEL):
    """A well-formed ModelInferRequest."""
    request = service_pb2.ModelInferRequest(model_name=model, model_version=version)
    request.inputs.add(name="state__0", datatype="UINT8", shape=states.shape)
    request.inputs.add(name="legal__1", datatype="INT16", shape=legal.shape)
    request.raw_input_contents.extend([states.tobytes(), legal.astype("<i2").tobytes()])
    return request


def publish_version(store: DirectoryStore, game: Game, *heads: str, model: str = MODEL) -> int:
    """Store another version, with files that pass for a model as long as nobody loads them, and these extra heads."""
    states, legal = sample_positions(game, games=1, seed=1)
    extra = {"opponents": np.full((len(states), ACTIONS), 1 / ACTIONS), "plies_left": np.zeros((len(states), 1))}
    of_heads = [extra.get(head, extra["plies_left"]) for head in heads]
    golden = Golden.of(states, legal, uniform_policy(legal), expected_value(states, legal, 0), of_heads)
    manifest = manifest_of(game, golden, heads=("policy", "value", *heads))
    archive = sample_archive(str(len(store.versions(model))).encode())
    weights = save({"stem.weight": np.full(3, len(store.versions(model)), np.float32)})
    files = {"model.pt": archive, "weights.safetensors": weights, "model.py": b"import torch\n"}
    return store.publish(model, files, manifest)


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until `condition` holds."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - turns of the loop, not a pause
            await asyncio.sleep(0)


async def refusal(call: Any) -> tuple[grpc.StatusCode, str]:
    """Await a call that must fail and return its code and details."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details()
