"""`zerofleet runs` and `zerofleet status`: the runs of a folder, and the state of one, alive or stopped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from games.core import make
from zerofleet.cli import screen
from zerofleet.cli.options import Json
from zerofleet.contracts.naming import model_name
from zerofleet.library.overview import describe
from zerofleet.library.run_files import OpenRun
from zerofleet.library.run_list import RunRow, list_runs, run_name, run_row, runs_in
from zerofleet.rpc.gatekeeper_client import GatekeeperClient
from zerofleet.rpc.security.credentials import client_tls, client_token
from zerofleet.storage.run_lookup import named_run, require_folder
from zerofleet.storage.run_paths import RUNS
from zerofleet.supervisor.attached import AttachedService, attach
from zerofleet.supervisor.borrowed import as_reached
from zerofleet.supervisor.keyboard import terminal_keyboard
from zerofleet.supervisor.lines import progress_line
from zerofleet.supervisor.observer import Observer
from zerofleet.supervisor.overview import Overview, live_services, overview
from zerofleet.supervisor.presenter import presenter
from zerofleet.supervisor.readings import Readings
from zerofleet.supervisor.screen import Title
from zerofleet.supervisor.words import count

__all__ = ["runs", "status"]

LOOK_EVERY_S = 1.0

Folder = Annotated[Path, typer.Option("--runs", metavar="FOLDER", help="Folder of runs.")]


def runs(*, folder: Folder = RUNS, json: Json = False) -> None:
    """List the runs of a folder: game, state, games, champion and its rating.

    Everything is read from the runs' files; no service is needed.
    """
    if folder != RUNS:  # which the first run creates
        require_folder(folder)
    found = list_runs(runs_in(folder))
    if json:
        screen.emit_value(found)
        return
    table = screen.table("run", "game", "preset", "created", "state", ">games", ">champion", "rating")
    for run in reversed(found.runs):  # the newest last, beside the prompt
        champion = str(run.champion) if run.champion is not None else "-"
        cells = (run.game, run.preset, _created(run), "running" if run.is_alive else "stopped")
        table.add_row(str(folder / run.name), *cells, count(run.games_stored), champion, _rating(run))
    screen.out().print(table if found.runs else f"no runs in {folder.absolute()}; start one with: zerofleet run GAME")
    for fault in found.unreadable:
        screen.note(f"{folder / fault.name} cannot be read: {fault.fault}")


def status(
    run: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help="Run directory, or its name below runs/.", show_default="the newest run"),
    ] = None,
    *,
    once: Annotated[bool, typer.Option("--once", help="Print the state once instead of following a live run.")] = False,
    json: Json = False,
) -> None:
    """Attach to a live run and show its page, or show the last state of a stopped one.

    Ctrl-C leaves the page; the run goes on.
    """
    found = overview(named_run(run))
    if not found.is_alive:
        _tell_stopped(found, json=json)
        return
    if json or once or not screen.out().is_terminal:
        now = asyncio.run(_look_twice(found))
        if json:
            _emit(found, now)
        else:
            screen.out().print(f"{found.paths.root} is running: {progress_line(now)}", soft_wrap=True)
        return
    with suppress(KeyboardInterrupt):
        asyncio.run(_follow(found))


def _observer(
    found: Overview, say: Callable[[str], None] = screen.note
) -> tuple[GatekeeperClient, Callable[[], Awaitable[Readings]]]:
    """Return a function that reads a live run, with services that became ready since, and the client that it uses.

    Called inside the event loop. `say` reports each verdict.
    """
    model = model_name(make(found.header.game, **found.header.parameters))
    address = next((one.address for one in found.services if one.name == "gatekeeper"), found.paths.gatekeeper_address)
    gatekeeper = GatekeeperClient(as_reached(address), token=client_token(), tls=client_tls(), timeout_s=10.0)
    services: list[AttachedService] = []
    observer = Observer(services, gatekeeper, model, say, directory=found.paths.root, began_at_s=_began_at_s(found))

    def look() -> Awaitable[Readings]:
        attach(services, found.paths, live_services(found.paths))
        return observer.look(None)

    return gatekeeper, look


def _began_at_s(found: Overview) -> float:
    """Return the start of a live run, seconds since 1970."""
    return min(service.started_at_s for service in found.services)


async def _look_twice(found: Overview) -> Readings:
    """Return a reading with rates, which need two."""
    gatekeeper, look = _observer(found)
    async with gatekeeper:
        await look()
        await asyncio.sleep(LOOK_EVERY_S)
        return await look()


async def _follow(found: Overview) -> None:
    """Show the page until Ctrl-C, or until every service has ended."""
    interrupt = "Ctrl-C leaves this page; the run goes on"
    title = Title(found.header.game, found.header.preset, str(found.paths.root), None, interrupt)
    began_at_s = _began_at_s(found)
    with presenter(screen.out(), title, terminal_keyboard()) as page:
        # A note on standard error would be written over the page.
        gatekeeper, look = _observer(found, lambda text: page.tell(time.time() - began_at_s, text))
        async with gatekeeper:
            now = await look()
            while any(service.memory_bytes for service in now.services):
                page.show(now)
                await asyncio.sleep(LOOK_EVERY_S)
                now = await look()
    screen.note(f"the services of {found.paths.root} have ended")


def _tell_stopped(found: Overview, *, json: bool) -> None:
    if json:
        _emit(found, None)
        return
    run = run_row(run_name(found.paths.root), found)
    table = screen.table("run", str(found.paths.root))
    table.add_row("game", " ".join([run.game, *(f"{name}={value}" for name, value in run.parameters.items())]))
    table.add_row("preset", run.preset)
    table.add_row("created", _created(run))
    table.add_row(
        "state", f"stopped; last seen {run.last_seen_at.isoformat(timespec='seconds') if run.last_seen_at else 'never'}"
    )
    table.add_row("games", count(run.games_stored))
    table.add_row("steps", count(run.step))
    table.add_row("champion", str(run.champion) if run.champion is not None else "none yet")
    table.add_row("rating", _rating(run))
    screen.out().print(table)


def _emit(found: Overview, now: Readings | None) -> None:
    """Print the run with a reading of its services; None for its files."""
    with closing(OpenRun(run_name(found.paths.root), found.paths)) as run:
        if now is None:
            screen.emit_value(run.status())
            return
        events, since = run.promotions(), run.since(now.candidates)
        screen.emit_value(run.status(describe(now, at=datetime.now(UTC), is_live=True, events=events, since=since)))


def _created(run: RunRow) -> str:
    return run.created_at.isoformat(timespec="seconds")


def _rating(run: RunRow) -> str:
    if run.champion is None:
        return ""
    if run.elo is None or run.elo_low is None or run.elo_high is None:
        return "not anchored"
    text = f"{run.elo:.0f} Elo, {run.elo_low:.0f} to {run.elo_high:.0f}"
    return text if run.rated_version == run.champion else f"version {run.rated_version}: {text}"
