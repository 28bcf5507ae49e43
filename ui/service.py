"""Service process of the web application: a server of the pages, until shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import structlog
import uvicorn

import games
from ui.app import LOOPBACK_NAMES, create_app
from ui.catalogue import Catalogue
from ui.running import WatchedGames
from ui.security import host_of
from ui.settings import UiSettings
from ui.worker_games import WorkerAccess
from zerofleet.errors import Unavailable
from zerofleet.rpc.security.credentials import plain
from zerofleet.service.lifecycle import Service

__all__ = ["journal_cache", "serve", "served_names"]

log = structlog.get_logger()


class _Server(uvicorn.Server):
    """Server that leaves signals to the service."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


async def serve(service: Service, settings: UiSettings) -> None:
    """Serve the pages until shutdown is requested. Raises `Unavailable`. Cancellation: connections are closed."""
    run_dir = None if settings.runs is not None else settings.run_dir
    catalogue = Catalogue(settings.runs, run_dir, cache=journal_cache(settings))
    access = WorkerAccess(settings.probed_workers, plain(settings.games_token), is_elsewhere=settings.services_elsewhere)
    app = create_app(
        catalogue,
        host_names=served_names(settings),
        token=plain(settings.page_token) or "",
        operator_token=plain(settings.page_operator_token) or "",
        max_tables=settings.max_tables,
        watched=WatchedGames(access),
        costs=settings.costs,
        is_elsewhere=settings.services_elsewhere,
    )
    listener = _bound(settings.page_host, settings.page_port)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,  # streams of events never end by themselves
    )
    server = _Server(config)

    async def stop() -> None:
        server.should_exit = True

    service.on_drain("pages", stop)
    work = asyncio.create_task(server.serve(sockets=[listener]))
    port = listener.getsockname()[1]
    service.ready(f"{_url(settings.page_host)}:{port}/")
    await asyncio.to_thread(_load_compiler)
    await work


def served_names(settings: UiSettings) -> tuple[str, ...]:
    """Return the hosts of the addresses at which requests are served, in lower case, or `*` for any."""
    named = [host_of(f"//{name.strip()}") for name in settings.page_host_names.split(",") if name.strip()]
    if not settings.is_loopback and not named:
        return ("*",)
    return (*LOOPBACK_NAMES, host_of(_url(settings.page_host)), *filter(None, named))


def _url(host: str) -> str:
    return f"http://[{host}]" if ":" in host else f"http://{host}"


def journal_cache(settings: UiSettings) -> Path | None:
    """Return the directory of what was read from journals; None where none is set, or its user has no home directory."""
    if settings.journal_cache is None:
        return None
    try:
        return settings.journal_cache.expanduser()
    except RuntimeError as error:  # a user id without an entry and without HOME, as in a container
        log.warning("cache.not_found", path=str(settings.journal_cache), error=str(error))
        return None


def _load_compiler() -> None:
    """Load the compiler of the rules, half a second of processor time, before the first request for a run needs it."""
    games.make("tic_tac_toe").spec()


def _bound(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises `Unavailable`."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise Unavailable(f"cannot listen on {host}: {error}; choose another address") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()  # a browser may connect as soon as the address is printed
    except OSError as error:
        listener.close()
        remedy = "choose another (`zerofleet ui --port N`), or 0 for a free one"
        raise Unavailable(f"cannot listen on {host} port {port}: {error.strerror}; {remedy}") from error
    return listener
