"""The client's wheel, built and installed once, and real servers for it: fixtures of both services' tests."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from inference_server.analysis import Analyst, Question
from zerofleet.storage.model_store import DirectoryStore

ROOT = Path(__file__).parents[2]


def beside(path: str) -> ModuleType:
    """Return a module of another folder of tests."""
    name = "of_" + path.replace("/", "_").removesuffix(".py")
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ROOT / "tests" / path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


_inference = beside("inference_server/conftest.py")
_gatekeeper = beside("gatekeeper/conftest.py")
game, loader, publish = _inference.game, _inference.loader, _inference.publish
open_wire, wire = _inference.open_wire, _inference.wire
models, inference, open_gate, _quick_retries = (
    _gatekeeper.models,
    _gatekeeper.inference,
    _gatekeeper.open_gate,
    _gatekeeper._quick_retries,
)


@pytest.fixture(scope="session", autouse=True)
def _compiled() -> None:
    """Compile what an evaluation runs, which takes longer than the deadline of a call where nothing is compiled yet."""
    analyst = Analyst(beside("inference_server/loop_watch.py").Plane(), max_simulations=100, max_searches=1)
    asked = Question(game="tic_tac_toe", parameters={}, moves=["b2"], version=1, simulations=40, seed=3)
    with ThreadPoolExecutor(1) as thread:  # the tests' own event loop stays as it is
        thread.submit(lambda: asyncio.run(analyst.opinion(asked))).result()


@pytest.fixture
def store(tmp_path) -> DirectoryStore:
    """Models of the inference server; the gatekeeper has its own."""
    return DirectoryStore(tmp_path / "served")


@pytest.fixture(scope="session")
def certificates(tmp_path_factory) -> Any:
    return beside("security/tls_peers.py").make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> Path:
    """The wheel as `make client` builds it, without a package index."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "-w", folder, ROOT / "client"], check=True, timeout=240)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def contents(wheel) -> dict[str, str]:
    """Text of every file of the wheel, by its name."""
    with zipfile.ZipFile(wheel) as file:
        return {name: file.read(name).decode() for name in file.namelist()}


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory) -> Path:
    """A folder that holds the installed client alone."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", folder, wheel]
    subprocess.run(command, check=True, timeout=240)
    return folder


@pytest.fixture(scope="session")
def library(installed) -> Iterator[ModuleType]:
    """The installed package `zerofleet_client`, in this process beside the product."""
    sys.path.insert(0, str(installed))
    yield importlib.import_module("zerofleet_client")
    sys.path.remove(str(installed))


class Asker:
    """One of the two clients, asked in the same way."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self._is_sync = type(client).__name__ == "Client"

    async def __call__(self, method: str, *arguments: Any, **options: Any) -> Any:
        call = getattr(self.client, method)
        if self._is_sync:
            return await asyncio.to_thread(call, *arguments, **options)
        return await call(*arguments, **options)

    async def next(self, watch: Any) -> Any:
        """Return the next value of a watch, None at its end."""
        return await (asyncio.to_thread(next, watch, None) if self._is_sync else anext(watch, None))

    async def end(self, watch: Any) -> None:
        """Close a watch."""
        await (asyncio.to_thread(watch.close) if self._is_sync else watch.aclose())


@pytest.fixture(params=["Client", "AsyncClient"])
async def connect(request, library) -> Any:
    """Return a function that makes a client of each kind in turn; all are closed at the end."""
    async with contextlib.AsyncExitStack() as stack:

        def open_client(*arguments: Any, **options: Any) -> Asker:
            asker = Asker(getattr(library, request.param)(*arguments, **options))
            stack.push_async_callback(asker, "close")
            return asker

        yield open_client
