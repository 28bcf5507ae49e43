"""`zerofleet runs` and `zerofleet status`: the runs of a folder, and the state of one, alive or stopped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from games.core import make
from games.errors import GameError
from zerofleet.cli import screen
from zerofleet.cli.options import Json
from zerofleet.contracts.naming import model_name
from zerofleet.errors import RunDirectoryError, ZerofleetError
from zerofleet.rpc.gatekeeper_client import GatekeeperClient
from zerofleet.rpc.security.credentials import client_tls, client_token
from zerofleet.storage.run_lookup import RUNS
from zerofleet.supervisor.attached import attach
from zerofleet.supervisor.keyboard import terminal_keyboard
from zerofleet.supervisor.lines import progress_line, row
from zerofleet.supervisor.observer import Observer
from zerofleet.supervisor.overview import Overview, overview
from zerofleet.supervisor.presenter import presenter
from zerofleet.supervisor.readings import Readings
from zerofleet.supervisor.screen import Title
from zerofleet.supervisor.words import count, rating

__all__ = ["runs", "status"]

LOOK_EVERY_S = 1.0

Folder = Annotated[Path, typer.Option("--runs", metavar="FOLDER", help="Folder of runs.")]


def runs(*, folder: Folder = RUNS, json: Json = False) -> None:
    """List the runs of a folder: game, state, games, champion and its rating.

    Everything is read from the runs' files; no service is needed.
    """
    found, faults = [], {}
    for header in sorted(folder.glob("*/run.json")):
        try:
            found.append(overview(header.parent))
        except (ZerofleetError, GameError, OSError) as error:  # a game that is not installed, a store that is away
            faults[header.parent] = str(error)
    found.sort(key=lambda run: run.header.created_at)
    if json:
        unreadable = [{"run": str(path), "fault": fault} for path, fault in faults.items()]
        screen.emit_json({"folder": str(folder), "runs": [_about(run) for run in found], "unreadable": unreadable})
        return
    table = screen.table("run", "game", "preset", "created", "state", ">games", ">champion", "rating")
    for run in found:
        champion = str(run.champion.version) if run.champion is not None else "-"
        cells = (run.header.game, run.header.preset, _created(run), "running" if run.is_alive else "stopped")
        table.add_row(str(run.paths.root), *cells, _games(run), champion, _rating(run))
    screen.out().print(table if found else f"no runs in {folder.absolute()}; start one with: zerofleet run GAME")
    for path, fault in faults.items():
        screen.note(f"{path} cannot be read: {fault}")


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
    found = overview(_directory(run))
    if not found.is_alive:
        _tell_stopped(found, json=json)
        return
    if json or once or not screen.out().is_terminal:
        now = asyncio.run(_look_twice(found))
        if json:
            screen.emit_json({**_about(found), "latest": row(now)})
        else:
            screen.out().print(f"{found.paths.root} is running: {progress_line(now)}", soft_wrap=True)
        return
    with suppress(KeyboardInterrupt):
        asyncio.run(_follow(found))


def _directory(run: str | None) -> Path:
    """Return the directory of a run; raises `RunDirectoryError` without one."""
    if run is not None:
        return Path(run) if Path(run).exists() or not (RUNS / run).exists() else RUNS / run
    headers = sorted(RUNS.glob("*/run.json"), key=lambda path: path.stat().st_mtime)
    if not headers:
        raise RunDirectoryError(
            f"there is no run in {RUNS.absolute()}; start one with `zerofleet run GAME`, or name a directory"
        )
    return headers[-1].parent


def _observer(found: Overview, say: Callable[[str], None] = screen.note) -> tuple[GatekeeperClient, Observer]:
    """Return an observer of a live run, and the client that it uses; called inside the event loop.

    `say` reports each verdict.
    """
    model = model_name(make(found.header.game, **found.header.parameters))
    address = next((one.address for one in found.services if one.name == "gatekeeper"), found.paths.gatekeeper_address)
    gatekeeper = GatekeeperClient(address, token=client_token(), tls=client_tls(), timeout_s=10.0)
    services, root = attach(found.paths), found.paths.root
    return gatekeeper, Observer(services, gatekeeper, model, say, directory=root, began_at_s=_began_at_s(found))


def _began_at_s(found: Overview) -> float:
    """Return the start of a live run, seconds since 1970."""
    return min(service.started_at_s for service in found.services)


async def _look_twice(found: Overview) -> Readings:
    """Return a reading with rates, which need two."""
    gatekeeper, observer = _observer(found)
    async with gatekeeper:
        await observer.look(None)
        await asyncio.sleep(LOOK_EVERY_S)
        return await observer.look(None)


async def _follow(found: Overview) -> None:
    """Show the page until Ctrl-C, or until every service has ended."""
    title, began_at_s = Title(found.header.game, found.header.preset, str(found.paths.root), None), _began_at_s(found)
    with presenter(screen.out(), title, terminal_keyboard()) as page:
        # A note on standard error would be written over the page.
        gatekeeper, observer = _observer(found, lambda text: page.tell(time.time() - began_at_s, text))
        async with gatekeeper:
            now = await observer.look(None)
            while any(service.memory_bytes for service in now.services):
                page.show(now)
                await asyncio.sleep(LOOK_EVERY_S)
                now = await observer.look(None)
    screen.note(f"the services of {found.paths.root} have ended")


def _tell_stopped(found: Overview, *, json: bool) -> None:
    if json:
        screen.emit_json({**_about(found), "latest": dict(found.latest)})
        return
    table = screen.table("run", str(found.paths.root))
    header = found.header
    table.add_row("game", " ".join([header.game, *(f"{name}={value}" for name, value in header.parameters.items())]))
    table.add_row("preset", header.preset)
    table.add_row("created", _created(found))
    table.add_row("state", f"stopped; last seen {found.latest.get('at', 'never')}")
    table.add_row("games", _games(found))
    table.add_row("steps", _number(found.latest, "step"))
    table.add_row("champion", str(found.champion.version) if found.champion is not None else "none yet")
    table.add_row("rating", _rating(found))
    screen.out().print(table)


def _about(found: Overview) -> dict[str, Any]:
    header, rung = found.header, found.rung
    return {
        "run": str(found.paths.root),
        "game": header.game,
        "parameters": dict(header.parameters),
        "preset": header.preset,
        "created_at": _created(found),
        "is_alive": found.is_alive,
        "services": [service.name for service in found.services],
        "last_seen_at": found.latest.get("at"),
        "games_stored": found.latest.get("games_stored"),
        "champion": found.champion.version if found.champion is not None else None,
        "rated_version": int(rung.name.removeprefix("model:")) if rung is not None else None,
        "elo": rung.elo if rung is not None else None,
        "elo_low": rung.elo_low if rung is not None else None,
        "elo_high": rung.elo_high if rung is not None else None,
    }


def _created(found: Overview) -> str:
    return found.header.created_at.isoformat(timespec="seconds")


def _games(found: Overview) -> str:
    return _number(found.latest, "games_stored")


def _number(latest: Mapping[str, object], name: str) -> str:
    value = latest.get(name)
    return count(value) if isinstance(value, int) else "-"


def _rating(found: Overview) -> str:
    if found.champion is None:
        return ""
    if found.rung is None:
        return "not anchored"
    version = int(found.rung.name.removeprefix("model:"))
    return rating(found.rung) if version == found.champion.version else f"version {version}: {rating(found.rung)}"
