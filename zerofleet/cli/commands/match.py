"""`zerofleet match`: match of two players from paired openings, with every seating."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer

from games.positions import parameters_text, titled
from zerofleet.agents.model.search_options import parse_search
from zerofleet.cli import screen
from zerofleet.cli.commands.match_report import show_match
from zerofleet.cli.options import (
    GameOrRun,
    InProcess,
    Json,
    OpeningFile,
    Parameters,
    RunDir,
    Search,
    Seed,
    Simulations,
    chosen_simulations,
    game_or_that_of_run,
    naming_default_game,
    refuse_search_without_model,
    stated_search,
)
from zerofleet.errors import InvalidRequest
from zerofleet.strength.matches import (
    FixedGames,
    MatchOutcome,
    MatchSettings,
    MatchTerms,
    Player,
    Scoreboard,
    SequentialTest,
    StoppingRule,
    read_openings,
    summarise,
)
from zerofleet.strength.matches.meeting import Met, meet, terms_of_games
from zerofleet.strength.ratings import Sprt, Verdict
from zerofleet.supervisor.entrants import Entrants, entrants, evaluator_of, run_named_in, serving

__all__ = ["match"]

GAMES = 100
OPENING_PLIES = 2
RISK = 0.05
"""Probability of either error of a sequential test."""
MOST_GAMES_OF_A_TEST = 20_000  # far more than a test of a relevant difference takes


def match(
    first: Annotated[
        str,
        typer.Argument(metavar="A", help="Player: champion, model:N, champion@RUN, or an agent; see zerofleet agents."),
    ],
    second: Annotated[str, typer.Argument(metavar="B", help="Opponent of A.")],
    *,
    game_name: GameOrRun = None,
    games: Annotated[
        int | None,
        typer.Option(
            "--games",
            metavar="N",
            min=1,
            help="Games, rounded up to groups with every seating.",
            show_default=f"{GAMES}; with --sprt at most {MOST_GAMES_OF_A_TEST}",
        ),
    ] = None,
    simulations: Simulations = None,
    search: Search = "",
    opening_plies: Annotated[
        int | None,
        typer.Option(
            "--opening-plies",
            metavar="K",
            min=0,
            help="Random plies of each group's opening.",
            show_default=f"{OPENING_PLIES}",
        ),
    ] = None,
    openings: OpeningFile = None,
    sprt: Annotated[
        str | None,
        typer.Option(
            "--sprt", metavar="ELO0,ELO1", help="Stop when a sequential test decides whether A is ELO0 or ELO1 stronger."
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            "--alpha", metavar="P", help="Probability that the test accepts ELO1 when ELO0 is true.", show_default=f"{RISK}"
        ),
    ] = None,
    beta: Annotated[
        float | None,
        typer.Option(
            "--beta", metavar="P", help="Probability that the test accepts ELO0 when ELO1 is true.", show_default=f"{RISK}"
        ),
    ] = None,
    in_process: InProcess = False,
    control: Annotated[bool, typer.Option("--control", help="Play A against itself under another name.")] = False,
    run_dir: RunDir = None,
    parameters: Parameters = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Play a match between two players: wins, draws and losses by seat, share of points with its interval, and Elo.

    Every opening is played with every seating, with the same deal. Deterministic players never repeat an opening.
    Games of more than two seats also show each player alone against several of the other.
    """
    named_run = run_dir or run_named_in((first, second))
    game = game_or_that_of_run(game_name, parameters, named_run)
    test = _sprt(sprt, alpha, beta)
    if openings is not None and opening_plies is not None:
        raise typer.BadParameter(
            "--openings is given too, which lists the openings; leave one out", param_hint="--opening-plies"
        )
    plies = OPENING_PLIES if opening_plies is None else opening_plies
    most = games or (MOST_GAMES_OF_A_TEST if test else GAMES)
    budget = chosen_simulations(game, simulations)
    options = parse_search(search).resolved(game.spec(), budget)  # rejects options that do not suit the game
    play = MatchSettings(simulations=budget, options=options)
    lines = None if openings is None else read_openings(game, openings)
    rule: StoppingRule = FixedGames() if test is None else SequentialTest(test)
    with naming_default_game(game_name, named_run):
        chosen = entrants((first, second), game, run_dir, note=screen.note, several_runs=True)
    players = _opponents(chosen, control=control)
    refuse_search_without_model(players, simulations, search)
    terms = terms_of_games(game, players, games=most, seed=seed, opening_plies=plies, openings=lines)
    total = terms.max_groups * terms.games_per_group
    if not json:
        screen.note(f"{titled(game)}, {'at most ' if test else ''}{total:,} games")
    watched: list[Scoreboard] = []
    try:
        met = asyncio.run(_play(terms, chosen, play, rule, watched, in_process=in_process))
    except KeyboardInterrupt:
        _show_interrupted(watched, total, json=json)
        raise
    summary = met.summary()
    if summary.games < most and test is None and not json:
        supply = f"{openings} has" if openings else f"{game.spec().name} has"
        length = "" if openings else f" of {plies} plies"
        screen.note(f"{summary.games} games: {supply} {summary.openings} different openings{length}")
    if not json:
        show_match(summary, met.outcome if test else None)
        return
    about = {"game": game.spec().name, "parameters": parameters_text(game), "simulations": budget}
    about |= {"search": stated_search(players, options), "seed": seed}
    start = {"opening_plies": plies if lines is None else None, "openings_file": None if openings is None else str(openings)}
    screen.emit_json({**about, **start, "sprt": _test_json(test, met.outcome), **asdict(summary)})


def _show_interrupted(watched: list[Scoreboard], total: int, *, json: bool) -> None:
    """State how many games of an interrupted match were played and, unless with `--json`, the result so far."""
    played, counted = 0, 0
    for board in watched:
        played, standing = len(board.results()), board.standing()
        if (counted := standing.games) and not json:
            show_match(summarise(board.terms, standing, board.counted_results(standing.groups)))
    of_whole = f"; the result has the {counted:,} of complete openings" if counted and counted < played else ""
    screen.note(f"interrupted after {played:,} of {total:,} games{of_whole}")


async def _play(
    terms: MatchTerms, chosen: Entrants, play: MatchSettings, rule: StoppingRule, watched: list[Scoreboard], *, in_process: bool
) -> Met:
    """Play the match, with an evaluator in this process or a borrowed inference server if a player needs a model.

    `watched` receives the board of the match with its first result. Cancellation: the results so far stay on the board.
    """
    label = f"games of {terms.players[0].name} against {terms.players[1].name}"
    async with AsyncExitStack() as stack:
        addresses: tuple[str, ...] = ()
        evaluator = None
        if in_process:
            evaluator = await stack.enter_async_context(evaluator_of(chosen, terms.game, in_process=True))
        else:
            addresses = await stack.enter_async_context(serving(chosen, terms.game))
        with screen.meter(label, terms.max_groups * terms.games_per_group) as meter:

            def progress(board: Scoreboard) -> None:
                watched[:] = [board]
                meter.advance(remark=partial(_remark, board, rule))

            return await meet(
                terms,
                addresses,
                simulations=play.simulations,
                options=play.options,
                evaluator=evaluator,
                rule=rule,
                progress=progress,
            )


def _opponents(chosen: Entrants, *, control: bool) -> tuple[Player, Player]:
    """Return the two players; raises `InvalidRequest` for different players with `--control`, or equal ones without it."""
    first, second = chosen.players
    if control and first != second:
        raise InvalidRequest(f"--control needs the same player twice, got {first.name} and {second.name}")
    if first == second and not control:
        raise InvalidRequest(
            f"{first.name} cannot play itself: the result is no evidence of strength; name two different players, "
            "or add --control to see how often chance alone decides"
        )
    return first, (second.twin() if control else second)


def _remark(board: Scoreboard, rule: StoppingRule) -> str:
    if not board.groups:
        return ""
    standing = board.standing()
    if isinstance(rule, SequentialTest):
        return f"{100 * standing.share:.1f} % of points, LLR {rule.log_likelihood_ratio(standing):+.2f}"
    return f"{100 * standing.share:.1f} % of points"


def _sprt(text: str | None, alpha: float | None, beta: float | None) -> Sprt | None:
    """Parse `ELO0,ELO1`, None for no test; raises a usage error, and `ConfigurationError` for an impossible test."""
    if text is None:
        for option, given in (("--alpha", alpha), ("--beta", beta)):
            if given is not None:
                raise typer.BadParameter("there is no test; add --sprt ELO0,ELO1, or leave it out", param_hint=option)
        return None
    try:
        elo0, elo1 = (float(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not ELO0,ELO1, such as 0,30", param_hint="--sprt") from None
    return Sprt(elo0, elo1, RISK if alpha is None else alpha, RISK if beta is None else beta)


def _test_json(test: Sprt | None, outcome: MatchOutcome) -> dict[str, object] | None:
    if test is None:
        return None
    ratio = outcome.log_likelihood_ratio
    bounds = {"lower": test.lower, "upper": test.upper}
    verdict = test.verdict(ratio)
    word = "not weaker" if verdict is Verdict.STRONGER and test.elo0 < 0 else verdict.value
    words = {"verdict": word, "conclusion": test.conclusion(verdict)}
    return {**asdict(test), **bounds, "log_likelihood_ratio": ratio, **words}
