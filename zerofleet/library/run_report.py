"""Report of a run: the values of every page as one, from the files of the run, with the commands that show them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime
from importlib import metadata

from zerofleet.contracts.set_options import set_options
from zerofleet.errors import RecordRejected, RunDirectoryError
from zerofleet.library.accuracy_record import MeasuredAccuracy
from zerofleet.library.ladder_list import Ladder
from zerofleet.library.match_list import MatchDetail, MatchList
from zerofleet.library.model_list import ModelList
from zerofleet.library.overview import Overview
from zerofleet.library.run_files import OpenRun
from zerofleet.library.run_list import RunRow
from zerofleet.library.run_settings import RunSettings, run_settings
from zerofleet.library.series import RunSeries
from zerofleet.library.stored_games import GameList
from zerofleet.library.values import Value

__all__ = ["RunReport", "read_report"]

CURVE_POINTS = 240
"""Rows of a curve: more than a chart of a report has pixels."""
MATCHES_WITH_PATH = 24


class RunReport(Value):
    """Everything that a report shows."""

    made_at: datetime
    release: str
    """Version of Zerofleet that made it."""
    directory: str
    seed: int
    run: RunRow
    overview: Overview
    curves: RunSeries
    accuracy: tuple[MeasuredAccuracy, ...]
    """Recorded measurements against perfect play, oldest first."""
    ladder: Ladder
    models: ModelList
    matches: MatchList
    latest: tuple[MatchDetail, ...]
    """The newest matches whose games the journal still holds, with the path of their test."""
    games: GameList | None
    """Newest stored games; None without any."""
    games_fault: str
    """Reason why there are no games to show; empty where there are."""
    settings: RunSettings
    commands: dict[str, str]
    """Command that prints the values of a section, by its name."""


def read_report(run: OpenRun, *, games: int, made_at: datetime) -> RunReport:
    """Return the report of a run, which may be in progress, with at most `games` stored games.

    Raises `RunDirectoryError` for a damaged journal or pointer, `OSError`.
    """
    gate, measured = run.gate(), run.accuracy()
    stored, fault = _games(run, games)
    told = [row.id for row in gate.matches.matches if row.id][:MATCHES_WITH_PATH]
    return RunReport(
        made_at=made_at,
        release=metadata.version("zerofleet"),
        directory=str(run.paths.root.absolute()),
        seed=run.header.seed,
        run=run.row(),
        overview=run.overview(),
        curves=run.series(points=CURVE_POINTS),
        accuracy=measured,
        ladder=gate.ladder,
        models=run.models(),
        matches=gate.matches,
        latest=run.several_matches(told),
        games=stored,
        games_fault=fault,
        settings=run_settings(run.paths),
        commands=_commands(run, stored, measured),
    )


def _games(run: OpenRun, limit: int) -> tuple[GameList | None, str]:
    try:
        found = run.games(limit=max(1, limit), before=None)
    except (RunDirectoryError, RecordRejected) as error:  # the trainer has not begun, or an earlier release stored them
        return None, str(error)
    if not found.games:
        return None, "no game is stored yet"
    return found.model_copy(update={"games": found.games[:limit]}), ""


def _commands(run: OpenRun, stored: GameList | None, measured: Sequence[MeasuredAccuracy]) -> dict[str, str]:
    root = str(run.paths.root)
    game = [run.header.game, *set_options(run.header.parameters)]
    on_run = ["--run-dir", root]
    words: dict[str, Sequence[str]] = {
        "run": ["status", root, "--json"],
        "overview": ["status", root],
        "curves": ["curves", "--run-dir", root],
        "models": ["models", "list", *game, *on_run, "--json"],
        "games": ["games", "list", *game, *on_run, "--json"],
        "report": ["report", root, "--json"],
        "pages": ["ui", *on_run],
    }
    if measured:
        words["accuracy"] = ["accuracy", measured[-1].accuracy.player, "--game", *game, *on_run, *_measuring(measured[-1])]
    if stored is not None and stored.games:
        words["game"] = ["games", "show", game[0], stored.games[0].uid[:12], *game[1:], *on_run]
    return {name: shlex.join(["zerofleet", *command]) for name, command in words.items()}


def _measuring(measured: MeasuredAccuracy) -> list[str]:
    """Return the options with which a measurement is repeated.

    The name of its file, if any, is not recorded. Of a record of an earlier release the number of positions is that of the
    judged ones.
    """
    found = measured.accuracy
    if any(result.source == "file" for result in found.results):
        positions = ["--from", "FILE"]
    else:
        judged = [result.all.kept.of for result in found.results if result.all is not None]
        wanted = found.wanted_positions or max(judged, default=1)
        positions = ["--positions", str(wanted), "--first-ply", str(found.first_ply)]
        positions += ["--stored"] * any(result.source == "stored" for result in found.results)
    positions += [] if found.max_nodes is None else ["--max-nodes", str(found.max_nodes)]
    return [*positions, "--simulations", str(found.simulations), "--seed", str(found.seed), "--json"]
