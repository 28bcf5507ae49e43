"""`zerofleet plan`: predicted throughput of a fleet, from measured costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zerofleet.cli import screen
from zerofleet.cli.options import Json, Parameters, Seed, check_finite, chosen_game
from zerofleet.library.metrics import read_metrics
from zerofleet.library.planning.costs import read_costs
from zerofleet.library.planning.fleet_model import simulate
from zerofleet.library.planning.plan import Limits, Plan, Simulated, make_plan
from zerofleet.library.planning.run_habits import habits_of, like_run
from zerofleet.storage.run_lookup import find_run

__all__ = ["plan"]

UNKNOWN = "\N{EN DASH}"


def plan(
    *,
    gpus: Annotated[int, typer.Option("--gpus", min=1, metavar="N", help="Number of inference servers, one device each.")] = 1,
    workers: Annotated[
        int, typer.Option("--workers", min=1, metavar="M", help="Number of self-play workers, one core each.")
    ] = 8,
    game: Annotated[str, typer.Option("--game", metavar="GAME", help="Game to learn.")] = "connect_four",
    costs: Annotated[
        Path | None,
        typer.Option("--costs", metavar="FILE", help="Cost file written by bench --save.", show_default="a shipped example"),
    ] = None,
    plies: Annotated[
        float | None,
        typer.Option(
            "--plies",
            min=1.0,
            callback=check_finite,
            metavar="N",
            help="Searched plies of a game.",
            show_default="those measured",
        ),
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(
            "--like",
            metavar="DIR",
            help="Run with the games to plan for: their moves and evaluations, and the gate's share, of its last ten minutes.",
            show_default="games of an untrained network",
        ),
    ] = None,
    link_gbit: Annotated[
        float,
        typer.Option("--link-gbit", min=0.001, callback=check_finite, help="Network bandwidth of each machine, Gbit/s."),
    ] = 10.0,
    simulated: Annotated[bool, typer.Option("--simulate", help="Check the arithmetic by discrete-event simulation.")] = False,
    seconds: Annotated[
        float, typer.Option("--seconds", min=1.0, callback=check_finite, help="With --simulate: simulated seconds.")
    ] = 60.0,
    trainer_away: Annotated[
        float,
        typer.Option(
            "--trainer-away",
            min=0.0,
            callback=check_finite,
            metavar="S",
            help="With --simulate: length of a trainer outage, from the middle.",
        ),
    ] = 0.0,
    parameters: Parameters = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Predict the throughput of a fleet and the part that saturates first; docs/scale.md explains the arithmetic."""
    rules = chosen_game(game, parameters)
    known, chosen = read_costs(costs, game=rules)
    if like is not None:
        habits = habits_of(read_metrics(find_run(rules, like).metrics))
        screen.note(
            f"{habits.games:,} games of the last {habits.seconds:,.0f} s of {like}: {habits.moves_per_game:.1f} moves, "
            f"{habits.evaluations_per_game:.1f} evaluations; the gate takes {habits.gate_share:.1%} of all evaluations"
        )
        known = like_run(known, habits)
    limits = Limits(link_bytes_per_second=link_gbit * 1e9 / 8)
    found = make_plan(known, chosen, gpus=gpus, workers=workers, plies=plies, limits=limits)
    if simulated:
        away = (seconds / 2, seconds / 2 + trainer_away)
        happened = simulate(
            *(known, chosen),
            gpus=gpus,
            workers=workers,
            seconds=seconds,
            trainer_away=away,
            plies=plies,
            limits=limits,
            seed=seed,
        )
        found = found.model_copy(update={"simulated": happened})
    if json:
        screen.emit_value(found)
        return
    _show(found)
    if found.simulated is not None:
        _show_simulated(found.simulated)


def _show(found: Plan) -> None:
    title = f"{found.game}, preset {found.preset}: {found.gpus} device(s), {found.workers} worker(s)"
    rows = screen.table("figure", ">value", title=title)
    rows.add_row("evaluations per second", f"{found.evaluations_per_second:,.0f}")
    rows.add_row("requests per second", f"{found.requests_per_second:,.0f}")
    rows.add_row("games per hour", f"{found.games_per_hour:,.0f}")
    rows.add_row("samples per second to the trainer", f"{found.samples_per_second:,.0f}")
    rows.add_row("uses of each sample", f"{found.uses_of_a_sample:.2f}")
    rows.add_row("to / from the inference servers", _pair(found.asked_bytes_per_second, found.answered_bytes_per_second))
    rows.add_row("stream", f"{_size(found.stream_bytes_per_second)}/s")
    rows.add_row("stream memory when workers wait", _size(found.stream_memory_bytes))
    rows.add_row("search trees and caches of a worker", _size(found.worker_memory_bytes))
    rows.add_row("replay window of the trainer", _size(found.window_memory_bytes))
    rows.add_row("disk of the game log", f"{_size(found.disk_bytes_per_day)} per day")
    rows.add_row("saturates first", found.saturates_first)
    screen.out().print(rows)
    load = screen.table("part", ">used")
    for part, share in sorted(found.load.items(), key=lambda item: -item[1]):
        load.add_row(part, f"{share:.1%}")
    screen.out().print(load)
    screen.note(f"costs measured on {found.costs}")


def _show_simulated(found: Simulated) -> None:
    rows = screen.table("figure", ">value", title=f"simulated for {found.seconds:.0f} s")
    rows.add_row("evaluations per second", f"{found.evaluations_per_second:,.0f}")
    rows.add_row("requests per second", f"{found.requests_per_second:,.0f}")
    rows.add_row("games per hour", f"{found.games_per_second * 3600:,.0f}")
    rows.add_row("latency p50 / p95 / p99", " / ".join(f"{ms:,.0f}" for ms in found.latency_ms.values()) + " ms")
    rows.add_row("most games in the stream", f"{found.stream_most_games:,} ({_size(found.stream_most_bytes)})")
    rows.add_row("games in the stream at the end", f"{found.stream_left_games:,}")
    step_ms, match_s = found.gate_step_ms, found.gate_match_s
    rows.add_row("step of the gate's match", UNKNOWN if step_ms is None else f"{step_ms:,.0f} ms")
    rows.add_row("longest match", UNKNOWN if match_s is None else f"{match_s:,.0f} s")
    screen.out().print(rows)


def _pair(asked: float, answered: float) -> str:
    return f"{_size(asked)}/s / {_size(answered)}/s"


def _size(count: float) -> str:
    """Return bytes in the largest unit that leaves a number of at least 1."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            break
        count /= 1000
    return f"{count:,.1f} {unit}"
