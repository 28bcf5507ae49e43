"""`zerofleet models`: versions of a run, their verdicts and ratings, and the champion."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from games.core import Game
from zerofleet.cli import screen
from zerofleet.cli.options import GameName, Json, Parameters, RunDir, chosen_game
from zerofleet.contracts.manifests import Manifest
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.promotions import Candidate, CandidateStatus, Champion
from zerofleet.errors import CorruptModel, InvalidRequest, Overloaded, PermissionRefused, Unavailable
from zerofleet.rpc.gatekeeper_client import GatekeeperClient
from zerofleet.rpc.security.credentials import client_tls, client_token
from zerofleet.service.settings import open_run_store
from zerofleet.storage.model_store import ModelStore
from zerofleet.storage.run_lookup import find_run
from zerofleet.storage.run_paths import RunPaths
from zerofleet.supervisor.borrowed import gatekept, live_address

__all__ = ["KnownModel", "ModelRow", "app", "list_models", "verify_models"]

EXIT_CORRUPT = 1
_LIVE_TIMEOUT_S = 3.0
_CHANGE_TIMEOUT_S = 120.0
"""An inference server that was just started loads the champion and its predecessor as well."""

_WATCHED = (CandidateStatus.TRIAL, CandidateStatus.UNPROVEN, CandidateStatus.WEAKER)
"""Statuses of champions, present and former, that were promoted before they were measured."""

Version = Annotated[int, typer.Argument(metavar="VERSION", min=1, help="Model version, such as 12.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Reason, recorded in the history.")]

app = typer.Typer(
    help="List, verify, promote and roll back models.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


@dataclass(frozen=True, slots=True)
class ModelRow:
    """Row of `models list`."""

    version: int
    status: str
    """champion, former champion, the gatekeeper's status, or corrupt; in mode watch a champion's measurement follows."""
    parent_version: int
    train_steps: int
    games_seen: int
    created_at: str
    size_bytes: int
    elo: float | None
    """Rating, with `random` at 0; None for an unrated version, or without a live gatekeeper."""
    note: str
    """Match against the champion of its time, or the fault."""


@dataclass(frozen=True, slots=True)
class KnownModel:
    """Version as reported by a gatekeeper."""

    version: int
    status: str
    """champion, or the gatekeeper's status."""
    elo: float | None
    note: str


@dataclass(frozen=True, slots=True)
class _Said:
    """Reply of a live gatekeeper."""

    candidates: dict[int, Candidate]
    elo: dict[str, float]


@app.command("list")
def list_(
    game_name: GameName,
    *,
    address: Annotated[
        str | None, typer.Option("--address", metavar="HOST:PORT", help="Use this gatekeeper instead of the files of a run.")
    ] = None,
    run_dir: RunDir = None,
    parameters: Parameters = None,
    json: Json = False,
) -> None:
    """List every stored version: status, training steps, rating.

    Verdicts and ratings require the run's gatekeeper to be up; champions are listed without it.
    --address lists the versions of a remote gatekeeper, without its files.
    """
    if address is not None:
        _list_known(asyncio.run(_known(address, chosen_game(game_name, parameters))), json=json)
        return
    game, paths = _open(game_name, run_dir, parameters)
    said = asyncio.run(_ask(paths, game))
    rows = list_models(paths, game, said)
    if json:
        screen.emit_json([asdict(row) for row in rows])
        return
    table = screen.table(">version", "status", ">steps", ">games", ">Elo", ">parent", "created", ">size", "note")
    for row in rows:
        elo = "" if row.elo is None else f"{row.elo:.0f}"
        numbers = (f"{row.train_steps:,}", f"{row.games_seen:,}", elo, str(row.parent_version or "-"))
        table.add_row(str(row.version), row.status, *numbers, row.created_at, f"{row.size_bytes / 1e6:.2f} MB", row.note)
    screen.out().print(table)
    if said is None:
        screen.note("the gatekeeper of this run is not running: ratings and verdicts are left out")


@app.command("show")
def show(
    game_name: GameName, version: Version, *, run_dir: RunDir = None, parameters: Parameters = None, json: Json = False
) -> None:
    """Show the manifest of a version, its status and its rating."""
    game, paths = _open(game_name, run_dir, parameters)
    store, model = open_run_store(paths), model_name(game)
    manifest = store.manifest(model, version)
    row = _row(manifest, asyncio.run(_ask(paths, game)), store.champion(model), _former(store, model))
    about: dict[str, Any] = {"status": row.status, "note": row.note, "elo": row.elo, **asdict(manifest)}
    if json:
        screen.emit_json(about)
        return
    del about["golden"], about["files"]
    table = screen.table("field", "value", title=f"{model} version {version}")
    for name, value in about.items():
        table.add_row(name, _plain(value))
    for name, stored in manifest.files.items():
        table.add_row(name, f"{stored.size:,} bytes, sha256 {stored.sha256[:16]}…")
    table.add_row("stored at", f"{store.location}/{model}/{version}")
    screen.out().print(table)


@app.command("verify")
def verify(
    game_name: GameName,
    versions: Annotated[list[int] | None, typer.Argument(metavar="[VERSION]...", help="Versions; all by default.")] = None,
    *,
    run_dir: RunDir = None,
    parameters: Parameters = None,
    json: Json = False,
) -> None:
    """Check every file of every version against its manifest: hashes, sizes, finite weights, game and encoding.

    The exit code is 1 if a version is corrupt. A corrupt version is never served; delete it from the model store.
    """
    game, paths = _open(game_name, run_dir, parameters)
    faults = verify_models(paths, game, versions or open_run_store(paths).versions(model_name(game)))
    if json:
        screen.emit_json([{"version": version, "fault": fault} for version, fault in faults.items()])
    else:
        table = screen.table(">version", "verdict")
        for version, fault in faults.items():
            table.add_row(str(version), fault or "ok")
        screen.out().print(table)
    if any(faults.values()):
        raise typer.Exit(EXIT_CORRUPT)


@app.command("promote")
def promote(
    game_name: GameName,
    version: Version,
    *,
    reason: Reason = "by hand",
    without_self_test: Annotated[
        bool,
        typer.Option(
            "--without-self-test",
            help="Promote even if no inference server can load the version. Risk: an untested champion that fails to load, "
            "or plays nonsense, stops the whole run.",
        ),
    ] = False,
    run_dir: RunDir = None,
    parameters: Parameters = None,
    json: Json = False,
) -> None:
    """Promote a version regardless of its match, once it is verified and the inference server has loaded it."""
    game, paths = _open(game_name, run_dir, parameters)
    open_run_store(paths).verify(model_name(game), version, game=game)
    _tell(asyncio.run(_change(paths, game, version, reason, without_self_test=without_self_test)), json=json)


@app.command("rollback")
def rollback(
    game_name: GameName,
    *,
    reason: Reason = "by hand",
    run_dir: RunDir = None,
    parameters: Parameters = None,
    json: Json = False,
) -> None:
    """Restore the previous champion."""
    game, paths = _open(game_name, run_dir, parameters)
    _tell(asyncio.run(_change(paths, game, None, reason)), json=json)


def list_models(paths: RunPaths, game: Game, said: _Said | None = None) -> list[ModelRow]:
    """Return a row for each stored version, ascending; a version without a readable manifest is corrupt."""
    store, model = open_run_store(paths), model_name(game)
    rows, champion, former = [], store.champion(model), _former(store, model)
    for version in store.versions(model):
        try:
            rows.append(_row(store.manifest(model, version), said, champion, former))
        except CorruptModel as error:
            rows.append(ModelRow(version, "corrupt", 0, 0, 0, "", 0, None, str(error)))
    return rows


def _former(store: ModelStore, model: str) -> dict[int, Champion]:
    """Return the last promotion of every version that was champion."""
    return {past.version: past for past in store.history(model)}


def verify_models(paths: RunPaths, game: Game, versions: list[int]) -> dict[int, str]:
    """Return the fault of each version, empty if it is sound. Raises `ModelNotFound`."""
    store, model = open_run_store(paths), model_name(game)
    faults = {}
    with screen.meter("verifying", len(versions)) as meter:
        for version in versions:
            try:
                store.verify(model, version, game=game)
                faults[version] = ""
            except CorruptModel as error:
                faults[version] = str(error)
            meter.advance()
    return faults


def _open(game_name: str, run_dir: Path | None, parameters: list[str] | None) -> tuple[Game, RunPaths]:
    game = chosen_game(game_name, parameters)
    return game, find_run(game, run_dir)


def _row(manifest: Manifest, said: _Said | None, champion: Champion | None, former: Mapping[int, Champion]) -> ModelRow:
    version = manifest.version
    candidate = said.candidates.get(version) if said else None
    if champion is not None and champion.version == version:
        status, note = "champion", champion.reason
    elif (past := former.get(version)) is not None:
        status, note = "former champion", past.reason
    else:
        status, note = ("" if candidate is None else candidate.status.value), ""
    if candidate is not None and candidate.status in _WATCHED:
        status = f"{status}, {candidate.status.value}"
    note = _verdict(candidate) or note
    return ModelRow(
        version=version,
        status=status,
        parent_version=manifest.parent_version,
        train_steps=manifest.train_steps,
        games_seen=manifest.games_seen,
        created_at=datetime.fromtimestamp(manifest.created_at_ms / 1000, UTC).isoformat(" ", "seconds").removesuffix("+00:00"),
        size_bytes=sum(stored.size for stored in manifest.files.values()),
        elo=said.elo.get(f"model:{version}") if said else None,
        note=note,
    )


async def _ask(paths: RunPaths, game: Game) -> _Said | None:
    """Query the run's gatekeeper; None if it is down or does not answer."""
    address = live_address(paths, "gatekeeper")
    if address is None:
        return None
    with suppress(Unavailable, Overloaded, InvalidRequest, PermissionRefused):
        async with _gatekeeper(address, timeout_s=_LIVE_TIMEOUT_S) as gatekeeper:
            candidates, _ = await gatekeeper.models(model_name(game))
            ladder = await gatekeeper.ladder(model_name(game))
            return _Said({one.version: one for one in candidates}, {rung.name: rung.elo for rung in ladder})
    return None


def _verdict(candidate: Candidate | None) -> str:
    if candidate is None or candidate.match is None:
        return "" if candidate is None else candidate.reason
    match = candidate.match
    return f"+{match.wins} ={match.draws} -{match.losses} against {match.champion_version}"


async def _known(address: str, game: Game) -> list[KnownModel]:
    """Query a gatekeeper for its versions, ascending."""
    model = model_name(game)
    async with _gatekeeper(address) as gatekeeper:
        candidates, champion = await gatekeeper.models(model)
        elo = {rung.name: rung.elo for rung in await gatekeeper.ladder(model)}
    status = {one.version: one.status.value for one in candidates}
    if champion is not None:
        known = next((one.status for one in candidates if one.version == champion.version), None)
        status[champion.version] = f"champion, {known.value}" if known in _WATCHED else "champion"
    notes = {one.version: _verdict(one) for one in candidates}
    return [KnownModel(v, status[v], elo.get(f"model:{v}"), notes.get(v, "")) for v in sorted(status)]


def _list_known(models: list[KnownModel], *, json: bool) -> None:
    if json:
        screen.emit_json([asdict(known) for known in models])
        return
    table = screen.table(">version", "status", ">Elo", "note")
    for known in models:
        table.add_row(str(known.version), known.status, "" if known.elo is None else f"{known.elo:.0f}", known.note)
    screen.out().print(table)


def _gatekeeper(address: str, *, timeout_s: float = 10.0) -> GatekeeperClient:
    return GatekeeperClient(address, token=client_token(), tls=client_tls(), timeout_s=timeout_s)


async def _change(
    paths: RunPaths, game: Game, version: int | None, reason: str, *, without_self_test: bool = False
) -> Champion:
    """Promote a version, or roll back if it is None."""
    model = model_name(game)
    async with (
        gatekept(paths, game, self_tests=not without_self_test) as address,
        _gatekeeper(address, timeout_s=_CHANGE_TIMEOUT_S) as gatekeeper,
    ):
        if version is None:
            return await gatekeeper.rollback(model, reason=reason)
        return await gatekeeper.promote(model, version, reason=reason, without_self_test=without_self_test)


def _tell(champion: Champion, *, json: bool) -> None:
    if json:
        screen.emit_json(asdict(champion))
        return
    screen.out().print(f"version {champion.version} of {champion.model} is champion (epoch {champion.epoch})")


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return "  ".join(f"{name}={entry}" for name, entry in value.items())
    if isinstance(value, tuple | list):
        return " x ".join(map(str, value))
    return "" if value is None else str(value)
