"""`zerofleet models`: versions of a run, their verdicts and ratings, and the champion."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from games.core import Game
from zerofleet.cli import screen
from zerofleet.cli.commands.compare_models import compare
from zerofleet.cli.options import GameName, Json, Parameters, RunDir, chosen_game
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.promotions import Champion
from zerofleet.errors import CorruptModel, InvalidRequest
from zerofleet.library.model_list import ALL_MODELS, KnownModel, ModelEntry, ModelQuery, known_models
from zerofleet.library.promotion import promote_version, roll_back
from zerofleet.library.run_files import OpenRun
from zerofleet.library.times import time_text
from zerofleet.rpc.gatekeeper_client import GatekeeperClient
from zerofleet.rpc.security.credentials import client_tls, client_token
from zerofleet.service.settings import open_run_store
from zerofleet.storage.run_lookup import find_run
from zerofleet.storage.run_paths import RunPaths

__all__ = ["app", "verify_models"]

EXIT_CORRUPT = 1

Version = Annotated[int, typer.Argument(metavar="VERSION", min=1, help="Model version, such as 12.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Reason, recorded in the history.")]

app = typer.Typer(
    help="List, compare, verify, promote and roll back models.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


@app.command("list")
def list_(
    game_name: GameName,
    *,
    address: Annotated[
        str | None, typer.Option("--address", metavar="HOST:PORT", help="Use this gatekeeper instead of the files of a run.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", metavar="N", min=1, help="Maximum number of versions, newest first; all by default."),
    ] = None,
    before: Annotated[
        int | None, typer.Option("--before", metavar="VERSION", min=1, help="Only versions older than this.")
    ] = None,
    champions: Annotated[bool, typer.Option("--champions", help="Only versions that are or were champion.")] = False,
    run_dir: RunDir = None,
    parameters: Parameters = None,
    json: Json = False,
) -> None:
    """List stored versions, newest first: status, training steps, rating.

    Verdicts and ratings are read from the run's files; no service is needed. A rating without games against the ladder's
    classical players is "not anchored". --address lists the versions of a remote gatekeeper, without its files.
    """
    query = ModelQuery(limit=limit, before=before, has_champions_only=champions)
    if address is not None:
        if query != ALL_MODELS:
            raise InvalidRequest(
                "a gatekeeper lists all its versions; leave out --limit, --before and --champions with --address"
            )
        game = chosen_game(game_name, parameters)
        _list_known(model_name(game), asyncio.run(_known(address, game)), json=json)
        return
    game, paths = _open(game_name, run_dir, parameters)
    found = OpenRun(paths.root.name, paths).models(query)
    if json:
        screen.emit_value(found)
        return
    if not found.versions:
        screen.out().print(_nothing(model_name(game), paths.root, query), soft_wrap=True, highlight=False)
        return
    columns = (">version", "status", ">Elo", ">95 % interval", ">steps", ">games", ">parent", "created", ">size", "note")
    table = screen.table(*columns)
    for row in found.versions:
        numbers = (f"{row.train_steps:,}", f"{row.games_seen:,}", str(row.parent_version or "-"))
        size = f"{row.size_bytes / 1e6:.2f} MB"
        table.add_row(str(row.version), row.status, *_rating_cells(row), *numbers, _exported(row), size, row.note)
    screen.out().print(table)
    if found.next_before is not None:
        screen.out().print(f"{len(found.versions):,} of {found.total:,} versions; older ones: --before {found.next_before}")


@app.command("show")
def show(
    game_name: GameName, version: Version, *, run_dir: RunDir = None, parameters: Parameters = None, json: Json = False
) -> None:
    """Show the manifest of a version, its status and its rating."""
    game, paths = _open(game_name, run_dir, parameters)
    store, model = open_run_store(paths), model_name(game)
    row = OpenRun(paths.root.name, paths).version(version)
    if json:
        screen.emit_value(row)
        return
    manifest = store.manifest(model, version)
    rating = {"elo": row.elo, "elo_low": row.elo_low, "elo_high": row.elo_high, "rated_games": row.rated_games}
    about: dict[str, Any] = {"status": row.status, "note": row.note, **rating, **asdict(manifest)}
    del about["golden"], about["files"], about["elo_low"], about["elo_high"]
    about["elo"] = " ".join(filter(None, (_rating_cells(row)[0], f"({_rating_cells(row)[1]})" if row.elo is not None else "")))
    about["created_at"] = _exported(row)
    table = screen.table("field", "value", title=f"{model} version {version}")
    for name, value in about.items():
        table.add_row(name, _plain(value))
    for name, stored in manifest.files.items():
        table.add_row(name, f"{stored.size:,} bytes, sha256 {stored.sha256[:16]}…")
    table.add_row("stored at", f"{store.location}/{model}/{version}")
    screen.out().print(table)


app.command("compare")(compare)


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
        listed = [{"version": version, "fault": fault} for version, fault in faults.items()]
        screen.emit_json({"model": model_name(game), "versions": listed})
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
    change = promote_version(paths, game, version, reason=reason, without_self_test=without_self_test)
    _tell(asyncio.run(change), json=json)


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
    _tell(asyncio.run(roll_back(paths, game, reason=reason)), json=json)


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


def _exported(row: ModelEntry) -> str:
    return "" if row.created_at is None else row.created_at.isoformat(timespec="seconds")


def _rating_cells(known: KnownModel) -> tuple[str, str]:
    """Return the cells of rating and interval: `not anchored` for games without a rating, empty without games."""
    if known.elo is None or known.elo_low is None or known.elo_high is None:
        return ("not anchored" if known.rated_games else "", "")
    return f"{known.elo:.0f}", f"{known.elo_low:.0f} to {known.elo_high:.0f}"


async def _known(address: str, game: Game) -> list[KnownModel]:
    """Query a gatekeeper for its versions, ascending."""
    async with GatekeeperClient(address, token=client_token(), tls=client_tls()) as gatekeeper:
        candidates, champion = await gatekeeper.models(model_name(game))
        return known_models(candidates, champion, await gatekeeper.ladder(model_name(game)))


def _list_known(model: str, known: list[KnownModel], *, json: bool) -> None:
    if json:
        screen.emit_json({"model": model, "versions": [one.model_dump(mode="json") for one in known]})
        return
    table = screen.table(">version", "status", ">Elo", ">95 % interval", "note")
    for one in known:
        table.add_row(str(one.version), one.status, *_rating_cells(one), one.note)
    screen.out().print(table)


def _nothing(model: str, root: Path, query: ModelQuery) -> str:
    """Return the line in place of a table without versions; it names the run, which may be another than expected."""
    given = [] if query.before is None else [f"--before {query.before}"]
    if query.has_champions_only:
        given.append("--champions")
    if given:
        return f"no version of {model} in {root} matches {' and '.join(given)}"
    return f"no version of {model} in {root} yet; `zerofleet status {root}` shows the state of the run"


def _tell(champion: Champion, *, json: bool) -> None:
    if json:
        about = asdict(champion)
        about["promoted_at"], about["exported_at"] = (
            time_text(about.pop(f"{name}_ms")) for name in ("promoted_at", "exported_at")
        )
        screen.emit_json(about)
        return
    screen.out().print(f"version {champion.version} of {champion.model} is champion (epoch {champion.epoch})")


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return "  ".join(f"{name}={entry}" for name, entry in value.items())
    if isinstance(value, tuple | list):
        return " x ".join(map(str, value))
    return "" if value is None else str(value)
