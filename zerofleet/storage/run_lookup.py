"""Lookup of a run: the named directory, or the newest run of the game below `runs/`."""

from __future__ import annotations

import shlex
from pathlib import Path

from games.core import Game
from games.positions import changed_parameters, titled
from zerofleet.contracts.set_options import set_options
from zerofleet.errors import RunDirectoryError
from zerofleet.storage.run_paths import RUNS
from zerofleet.storage.runs import RunHeader, RunPaths, read_header

__all__ = ["default_directory", "find_run", "named_run", "require_folder"]


def default_directory(game: Game, preset: str) -> Path:
    """Return the default directory of `zerofleet run`: `runs/<game>[-<parameter><value>]-<preset>`."""
    changed = [f"{name}{value}" for name, value in changed_parameters(game).items()]
    return RUNS / "-".join([game.spec().name, *changed, preset])


def find_run(game: Game, run_dir: Path | None, *, runs: Path = RUNS) -> RunPaths:
    """Return the paths of the run to use, without locking it.

    Raises `RunDirectoryError` if `run_dir` is not a run or is a run of another game, or if no run of the game is found.
    """
    name = game.spec().name
    if run_dir is not None:
        header = read_header(run_dir)
        if not _is_of(header, game):
            remedy = f"{_option(header)}, or choose another --run-dir" if header.game == name else "choose another --run-dir"
            raise RunDirectoryError(f"{run_dir} is a run of {header.title}, not of {titled(game)}; {remedy}")
        return RunPaths(run_dir)
    readable = _readable(runs)
    found = [(header.created_at, root) for root, header in readable if _is_of(header, game)]
    if not found:
        others = [(header.created_at, root, _option(header)) for root, header in readable if header.game == name]
        near = "for {1} {2}; ".format(*max(others)) if others else ""
        raise RunDirectoryError(
            f"there is no run of {titled(game)} in {runs.absolute()}; {near}start one with "
            f"`{shlex.join(['zerofleet', 'run', name, *set_options(changed_parameters(game))])}`, or select one with --run-dir"
        )
    return RunPaths(max(found)[1])


def named_run(name: str | None, *, runs: Path = RUNS) -> Path:
    """Return the run directory of a path or of a name below `runs/`; None is the newest run there.

    Raises `RunDirectoryError` if there is no run to choose.
    """
    if name is not None:
        return Path(name) if Path(name).exists() or not (runs / name).exists() else runs / name
    found = [(header.created_at, root) for root, header in _readable(runs)]
    if not found:
        raise RunDirectoryError(
            f"there is no run in {runs.absolute()}; start one with `zerofleet run GAME`, or name a directory"
        )
    return max(found)[1]


def require_folder(runs: Path) -> None:
    """Raise `RunDirectoryError` unless the folder of runs exists."""
    if not runs.is_dir():
        raise RunDirectoryError(f"there is no folder {runs.absolute()}; start a run with `zerofleet run`, or choose --runs")


def _readable(runs: Path) -> list[tuple[Path, RunHeader]]:
    """Return the runs below a directory; unreadable ones are skipped."""
    found = []
    for path in sorted(runs.glob("*/run.json")):
        try:
            found.append((path.parent, read_header(path.parent)))
        except RunDirectoryError:
            continue
    return found


def _is_of(header: RunHeader, game: Game) -> bool:
    """Return whether the run's models are those of the game; parameters that change the scores alone may differ."""
    spec = game.spec()
    if header.game != spec.name:
        return False
    own, wanted = (
        {name: value for name, value in parameters.items() if name not in spec.score_parameters}
        for parameters in (header.parameters, changed_parameters(game))
    )
    return own == wanted


def _option(header: RunHeader) -> str:
    """Return the advice to name the game of a run as it is."""
    return f"give {shlex.join(set_options(header.parameters))}" if header.parameters else "give no parameters of the game"
