"""Command `zerofleet bench learn`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from games.core import Game
from zerofleet.agents import make_agent
from zerofleet.cli import screen
from zerofleet.cli.bench.learn import report
from zerofleet.cli.bench.learn.trials import TrialResult, run_trials
from zerofleet.cli.compilation import announce_compilation
from zerofleet.cli.laboratory import run_until_terminated
from zerofleet.cli.options import LAST_SEED, GameName, Json, Preset, check_finite
from zerofleet.errors import ConfigurationError
from zerofleet.presets.trial import Trial, require_effect
from zerofleet.strength.charts import require_outputs
from zerofleet.strength.ladders.rungs import default_rungs, parse_rungs, require_rungs
from zerofleet.strength.learning.positions import is_solvable, kept_file_positions, kept_positions
from zerofleet.strength.position_file import read_positions
from zerofleet.supervisor import split_settings

__all__ = ["learn"]

OPPONENT_DEPTH = 3
JUDGE_SEED = 20_181_207  # the positions and openings of the judge are kept apart from those of training


def learn(
    game_name: GameName,
    *,
    cpu_seconds: Annotated[
        float | None,
        typer.Option(
            "--cpu-seconds",
            metavar="S",
            min=1.0,
            callback=check_finite,
            help="Budget in processor seconds, without judgement; this or --samples is required.",
        ),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option("--samples", metavar="N", min=1, help="Budget in samples, exactly repeatable, in place of --cpu-seconds."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Parameter of the game (rows=4) or value of the preset (search.simulations=50)."
        ),
    ] = None,
    preset: Preset = "laptop",
    seeds: Annotated[int, typer.Option("--seeds", metavar="K", min=1, help="Number of seeds, one trial each.")] = 1,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, max=LAST_SEED, help="First seed.")] = 0,
    jobs: Annotated[int, typer.Option("--jobs", metavar="J", min=1, help="Trials at a time.")] = 1,
    judge_every: Annotated[
        float | None,
        typer.Option(
            "--judge-every",
            metavar="N",
            callback=check_finite,
            help="Budget between two judgements.",
            show_default="a fifth of the budget",
        ),
    ] = None,
    simulations: Annotated[
        int, typer.Option("--simulations", metavar="N", min=0, help="Simulations per move of the judged network.")
    ] = 100,
    judged: Annotated[
        int, typer.Option("--judged", metavar="N", min=2, help="Number of judged positions, where there is perfect play.")
    ] = 500,
    positions: Annotated[
        Path | None,
        typer.Option("--positions", metavar="FILE", help="Judge on the positions of this file; see docs/bench_learn.md."),
    ] = None,
    opponents: Annotated[
        str | None,
        typer.Option(
            "--opponents",
            metavar="NAMES",
            help="Judge by matches against these agents, separated by commas.",
            show_default="perfect play, else the game's ladder",
        ),
    ] = None,
    games: Annotated[int, typer.Option("--games", metavar="N", min=2, help="Games against each opponent.")] = 40,
    against: Annotated[
        Path | None, typer.Option("--against", metavar="FILE", help="Result of an earlier call, to compare with.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Store the result as JSON.")] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the curve; the name ends in .svg or .png.")
    ] = None,
    json: Json = False,
) -> None:
    """Learn a game in one process on a budget of processor time, and judge the network at intervals.

    Search, evaluation, intake and learning take turns; a candidate is adopted at once. With several seeds the intervals are
    over seeds, else over positions or games.
    """
    trial = _trial(locals())
    require_outputs(plot, out)
    earlier = None if against is None else report.read_result(against)
    trials = [trial.model_copy(update={"seed": one}) for one in range(seed, seed + seeds)]
    about = report.about(trial)
    if earlier is not None:
        report.require_comparable(about, earlier, str(against))
    started: dict[int, TrialResult] = {}
    with screen.meter("learning", round(trial.budget) * seeds) as meter:
        done = dict.fromkeys((one.seed for one in trials), 0)

        def on_event(found: TrialResult, event: dict[str, Any]) -> None:
            now = min(round(trial.budget), round(event["done"]))
            remark = report.remark(found, event)
            meter.advance(now - done[found.seed], remark)
            done[found.seed] = now
            started[found.seed] = found
            if event["kind"] == "judgement":
                report.store(out, about, list(started.values()))

        results = run_until_terminated(run_trials(trials, jobs=jobs, on_event=on_event))
    whole = report.store(out, about, results)
    report.require_judged(results)
    if plot is not None:
        report.draw(whole, plot)
    if json:
        screen.emit_json(whole)
        return
    report.show(whole)
    if earlier is not None:
        report.show_comparison(whole, earlier, str(against))


def _trial(given: dict[str, Any]) -> Trial:
    """Return the trial of a command line; raises `ConfigurationError` for an impossible one."""
    parameters, overrides = split_settings(given["settings"] or ())
    if (given["cpu_seconds"] is None) == (given["samples"] is None):
        raise ConfigurationError("want a budget: --cpu-seconds S or --samples N, one of the two")
    if given["judge_every"] is not None and given["judge_every"] <= 0.0:
        raise ConfigurationError(f"--judge-every {given['judge_every']:g} is out of range; want a number above 0")
    require_effect(overrides)
    budget = given["cpu_seconds"] or given["samples"]
    trial = Trial(
        game=given["game_name"],
        preset=given["preset"],
        parameters=parameters,
        settings=overrides,
        cpu_seconds=given["cpu_seconds"],
        samples=given["samples"],
        judge_every=given["judge_every"] or budget / 5,
        simulations=given["simulations"],
        games=given["games"],
        judge_seed=JUDGE_SEED,
    )
    game = trial.build_game()
    announce_compilation(trial.game)
    trial.build_preset()
    return trial.model_copy(update=_judge(given, game))


def _judge(given: dict[str, Any], game: Game) -> dict[str, Any]:
    """Return the fields of a trial that say how it is judged."""
    if given["opponents"] is not None:
        if given["positions"] is not None:
            raise ConfigurationError("--positions and --opponents are two ways to judge; choose one")
        named = parse_rungs(given["opponents"])
        require_rungs(named, game, make_agent=make_agent)
        return {"opponents": tuple(named)}
    if given["positions"] is not None:
        filed = read_positions(game, given["positions"])
        with screen.meter("scoring positions to judge", len(filed)) as meter:
            return {"positions": str(kept_file_positions(cache_folder(), game, filed, progress=meter.advance))}
    if not is_solvable(game):
        rungs = default_rungs(game, make_agent=make_agent, depth=OPPONENT_DEPTH)
        return {"opponents": rungs[1:] or rungs}
    with screen.meter("drawing positions to judge", given["judged"]) as meter:
        path = kept_positions(cache_folder(), game, count=given["judged"], seed=JUDGE_SEED, progress=meter.advance)
    return {"positions": str(path)}


def cache_folder() -> Path:
    """Return the folder of drawn positions, in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "zerofleet" / "positions"
