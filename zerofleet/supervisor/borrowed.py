"""Services borrowed from a run: a live one where that suffices, else a temporary one.

    async with served(paths, game) as address:           # an inference server with the champion
        ...
    async with evaluating(address, game) as evaluator:   # see zerofleet.evaluators.opening
        ...
    async with gatekept(paths, game) as address:         # a gatekeeper, for promotions

A service is live if its announce file names a live process that replies. A temporary service has a private socket and its
own token, logs to a temporary file, and stops with the `async with`, or with this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from games.core import Game
from games.positions import parameters_text
from zerofleet.contracts.naming import model_name
from zerofleet.errors import ModelNotFound, Unavailable, ZerofleetError
from zerofleet.evaluators.control import ModelControl
from zerofleet.rpc.channels import open_channel
from zerofleet.rpc.security.credentials import client_tls, client_token
from zerofleet.service.settings import open_run_store
from zerofleet.storage.model_store import ModelStore
from zerofleet.storage.runs import RunDirectory, RunPaths, read_header
from zerofleet.supervisor.overview import live_service
from zerofleet.supervisor.termination import terminate

__all__ = [
    "OwnServer",
    "as_reached",
    "ask_once",
    "champion_version",
    "gatekept",
    "live_address",
    "live_server",
    "own_server",
    "served",
    "stored_versions",
    "verify",
]

Answer = TypeVar("Answer")

START_TIMEOUT_S = 120.0  # torch's first import on a cold, slow disk
PROBE_TIMEOUT_S = 3.0
STOP_TIMEOUT_S = 20.0
LOG_LINES_SHOWN = 8
EVERYWHERE = {"0.0.0.0", "[::]"}  # noqa: S104 - announced by a server, not bound here

# Reconnect many times a second to a server that is about to listen; grpc's own back-off grows to minutes.
_STARTING = (
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 5000),  # also the connect timeout, which a busy machine may need
    ("grpc.max_reconnect_backoff_ms", 100),
    ("grpc.use_local_subchannel_pool", 1),
)


def champion_version(run: RunPaths | RunDirectory, game: Game, *, instead: str = "model:N") -> int:
    """Return the version of the run's champion; raises `ModelNotFound` before the first promotion.

    `instead`: how the caller names a version, for the message.
    """
    paths, model = _paths(run), model_name(game)
    champion = open_run_store(paths).champion(model)
    if champion is None:
        raise ModelNotFound(f"{paths.root} has no champion of {model} yet; continue the run, or name a version as {instead}")
    return champion.version


def live_address(run: RunPaths | RunDirectory, service: str) -> str | None:
    """Return the gRPC address announced by a service of the run, None unless it is alive (`live_service`).

    Of several inference servers it is that of the first live one.
    """
    return next((address for _, address in _live_processes(_paths(run), service)), None)


def _live_processes(paths: RunPaths, service: str) -> list[tuple[str, str]]:
    """Return name and address of each live process of a service, in the order of their numbers."""
    numbered = [path for path in paths.services.glob(f"{service}-*.json") if path.stem.rpartition("-")[2].isdecimal()]
    numbered.sort(key=lambda path: int(path.stem.rpartition("-")[2]))
    found = (live_service(path) for path in (paths.announce(service), *numbered))
    return [(one.name, as_reached(one.address)) for one in found if one is not None]


def as_reached(address: str) -> str:
    """Return the client address of a server on this machine: `localhost` if it listens on all interfaces."""
    host, _, port = address.rpartition(":")
    return f"localhost:{port}" if host in EVERYWHERE else address


@contextlib.asynccontextmanager
async def served(
    run: RunPaths | RunDirectory, game: Game, *, versions: Sequence[int] = (), once: bool = False
) -> AsyncIterator[str]:
    """Yield the address of an inference server that serves `versions` of the game's model, by default the champion.

    A server is started, which serves them until the end of the block. `once`: for a single request, which goes to the run's own
    server if that serves them all (`live_server`).
    Raises `ModelNotFound`, `CorruptModel`, `Unavailable`.
    Cancellation: a temporary server is stopped.
    """
    wanted = sorted(set(versions)) or [champion_version(run, game)]
    await verify(run, game, wanted)
    if once and (live := await live_server(run, game, wanted)):
        yield live
        return
    async with own_server(run, game, max_versions=len(wanted)) as server:
        await server.serve(wanted)
        yield server.address


class Serving(Protocol):
    """Context with the address of an inference server; see `served` for `once`."""

    def __call__(self, *, once: bool) -> contextlib.AbstractAsyncContextManager[str]: ...


async def ask_once(serving: Serving, ask: Callable[[str], Awaitable[Answer]]) -> Answer:
    """Return the answer to a single request, `ask` with the address of a server.

    The run's own server may retire the version after it was found there; another is asked then. Raises as both arguments.
    Cancellation: as theirs.
    """
    async with serving(once=True) as address:
        with contextlib.suppress(ModelNotFound):
            return await ask(address)
    async with serving(once=False) as address:
        return await ask(address)


def stored_versions(run: RunPaths | RunDirectory, game: Game) -> list[int]:
    """Return the stored versions of the game's model, ascending."""
    return open_run_store(_paths(run)).versions(model_name(game))


async def verify(run: RunPaths | RunDirectory, game: Game, versions: Sequence[int]) -> None:
    """Verify the files of stored versions. Raises `ModelNotFound`, `CorruptModel`. Cancellation: no effect."""
    store = open_run_store(_paths(run))
    for version in versions:
        await asyncio.to_thread(store.verify, model_name(game), version, game=game)


async def live_server(run: RunPaths | RunDirectory, game: Game, versions: Sequence[int]) -> str | None:
    """Return the address of the run's own inference server if it is up and has all those versions at the moment.

    For a single request alone: the gatekeeper has it serve the champion, its predecessor and few others, so that two promotions
    later it rejects the version of a match or a game. It is never made to serve versions for others, which would slow the run.
    Cancellation: no effect.
    """
    live = live_address(_paths(run), "inference_server")
    return live if live is not None and await _has(live, model_name(game), versions) else None


@contextlib.asynccontextmanager
async def own_server(run: RunPaths | RunDirectory, game: Game, *, max_versions: int) -> AsyncIterator[OwnServer]:
    """Start an inference server for the purpose, of `max_versions` at a time; it serves nothing yet.

    Cancellation: it is stopped.
    """
    paths = _paths(run)
    # As an option: the environment may have a limit that is meant for the run's own server.
    async with _started("inference_server", paths, game, "--max-versions", str(max_versions)) as (address, token):
        yield OwnServer(address, token, model_name(game), open_run_store(paths))


@dataclass(frozen=True, slots=True)
class OwnServer:
    """An inference server that was started for the purpose."""

    address: str
    _token: str = field(repr=False)
    _model: str = field(repr=False)
    _store: ModelStore = field(repr=False)

    @property
    def is_listening(self) -> bool:
        """Whether the server accepts connections; not after its process was killed."""
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(PROBE_TIMEOUT_S)
            try:
                probe.connect(self.address.removeprefix("unix:"))
            except OSError:
                return False
        return True

    async def serve(self, versions: Sequence[int]) -> None:
        """Make exactly these versions served, those that it has loaded also when they are no longer stored.

        Raises as `ModelControl.serve`. Cancellation: call again.
        """
        async with ModelControl(self.address, token=self._token, store=self._store) as control:
            loaded = await control.loaded()
            await control.serve(self._model, versions, held=loaded.get(self._model, ()))


@contextlib.asynccontextmanager
async def gatekept(run: RunPaths | RunDirectory, game: Game, *, self_tests: bool = True) -> AsyncIterator[str]:
    """Yield the address of the run's gatekeeper, or of one started for the purpose, which acts on commands alone.

    `self_tests`: a gatekeeper that is started can have versions loaded. An inference server is started as well, unless the
    run's own is up.
    Raises `Unavailable`. Cancellation: what was started is stopped.
    """
    paths = _paths(run)
    live = live_address(paths, "gatekeeper")
    if live is not None:
        yield live
        return
    options, token = ["--by-hand-only", "true"], ""
    async with contextlib.AsyncExitStack() as stack:
        servers = _live_processes(paths, "inference_server")
        if self_tests and not servers:
            server, token = await stack.enter_async_context(_started("inference_server", paths, game))
            options += ["--inference-address", server, "--control-address", server]
        elif servers and servers[0][0] != "inference_server":  # one of several, each at an address of its own
            addresses = [address for _, address in servers]
            options += ["--inference-address", addresses[0], "--control-address", ",".join(addresses)]
        address, _ = await stack.enter_async_context(_started("gatekeeper", paths, game, *options, token=token))
        yield address


def _paths(run: RunPaths | RunDirectory) -> RunPaths:
    return run.paths if isinstance(run, RunDirectory) else run


async def _has(address: str, model: str, versions: Sequence[int]) -> bool:
    """Return whether a server replies and serves all these versions."""
    try:
        probe = ModelControl(address, token=client_token(), tls=client_tls(), timeout_s=PROBE_TIMEOUT_S)
        async with asyncio.timeout(PROBE_TIMEOUT_S), probe as control:
            return all([await control.ready(model, version) for version in versions])
    except (TimeoutError, ZerofleetError):
        return False


_OF_ANY = ("--metrics-host", "127.0.0.1", "--metrics-port", "0", "--announce", "")
_OF_SERVER = ("--http-address", "", "--inference.front-ends", "0")
"""Settings that keep a service apart from one whose environment this process has: in a container both would have its ports and
its announce file."""


@contextlib.asynccontextmanager
async def _started(service: str, paths: RunPaths, game: Game, *options: str, token: str = "") -> AsyncIterator[tuple[str, str]]:
    """Start a service of the run as a child; yield its address and its token once it listens, and end it.

    `token` is that of the inference server which a gatekeeper asks; empty: this process's own. An inference server draws one.
    """
    with _directory() as directory:
        address = f"unix:{directory}/{service}.sock"
        token = secrets.token_hex(16) if service == "inference_server" else token
        arguments = [
            *_OF_ANY,
            *(_OF_SERVER if service == "inference_server" else ()),
            *("--run-dir", str(paths.root.absolute()), "--game", game.spec().name, "--preset", read_header(paths.root).preset),
            *("--address", address, "--parent-pid", str(os.getpid()), "--log-format", "console", "--grace-s", "10"),
            *(f"--game-parameters.{name}={value}" for name, value in parameters_text(game).items()),
            *options,
        ]
        log = directory / f"{service}.log"
        with log.open("wb") as out:
            # Own session: Ctrl-C at the terminal reaches only this process, which then stops the child in order.
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", service, *arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env=_environment(token),
            )
        try:
            await _until_listening(service, address, process, log)
            yield address, token
        finally:
            await terminate(process, timeout_s=STOP_TIMEOUT_S)


@contextlib.contextmanager
def _directory() -> Iterator[Path]:
    """Yield a new directory and remove it; a `TemporaryDirectory` would be removed by the end of a forked process as well."""
    path = Path(tempfile.mkdtemp(prefix="zerofleet-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _environment(token: str) -> dict[str, str]:
    """Return the environment of a service on a private socket: without tokens of others, and with `token` where it is given."""
    own = {name: value for name, value in os.environ.items() if name not in {"ZEROFLEET_TOKENS", "ZEROFLEET_TOKENS_FILE"}}
    if token:
        own.pop("ZEROFLEET_TOKEN_FILE", None)
        own["ZEROFLEET_TOKEN"] = token
    return own


async def _until_listening(service: str, address: str, process: asyncio.subprocess.Process, log: Path) -> None:
    """Wait until the child accepts connections; raises `Unavailable` with the end of its log on failure."""
    async with open_channel(address, _STARTING) as channel:
        ready, died = asyncio.ensure_future(channel.channel_ready()), asyncio.ensure_future(process.wait())
        try:
            await asyncio.wait({ready, died}, timeout=START_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
            if ready.done():
                return
        finally:
            ready.cancel()
            died.cancel()
    said = await asyncio.to_thread(_last_lines, log)
    how = (
        f"exited with {process.returncode}" if process.returncode is not None else f"did not listen for {START_TIMEOUT_S:.0f} s"
    )
    raise Unavailable(f"{service} could not be started: it {how}\n{said}".rstrip())


def _last_lines(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").strip().splitlines()[-LOG_LINES_SHOWN:])
