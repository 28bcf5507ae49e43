"""The search of the Abalone players: values of plain minimax, whatever is switched on, and what it knows of a game's end."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

import games
from benchmarks.abalone_ablation import middle_games
from games import core
from games.abalone import Abalone
from games.core import Game, State
from zerofleet.agents.budget import Budget
from zerofleet.agents.by_game.abalone import SearchOptions, think
from zerofleet.agents.by_game.abalone.evaluation import evaluate, evaluation
from zerofleet.agents.by_game.abalone.search import WON

SWITCHES = ("deepening", "table", "killers", "history", "static", "aspiration")
PLAIN = SearchOptions(**dict.fromkeys(SWITCHES, False))  # type: ignore[arg-type]
ONE_TO_GO = ("E2 E3 E5 E6 E7 F5 F6 F7 D4", "E1 A5 B6 C7 D8 G9 H9 I9 I8")  # E3W pushes the sixth marble off


def plies(depth: int) -> Budget:
    return Budget(depth, "plies")


class Elapsed:
    """Timer whose time is over when it starts."""

    daemon = False

    def __init__(self, delay_s: float, act: Callable[..., None], arguments: tuple[int, int]) -> None:
        self._act, self._arguments = act, arguments

    def start(self) -> None:
        self._act(*self._arguments)

    def cancel(self) -> None: ...

    def join(self) -> None: ...


def children(game: Game, state: State) -> dict[int, State]:
    after = {}
    for action in games.legal(game, state):
        after[action] = state.copy()
        core.play(game, after[action], action)
    return after


def captures_only(game: Game, state: State) -> dict[int, State]:
    mover = int(state[2]) & 1
    held = int(state[1 - mover]).bit_count()
    return {action: child for action, child in children(game, state).items() if int(child[1 - mover]).bit_count() < held}


def finished(game: Game, state: State, marble: int, depth: int) -> int:
    """Value of a finished game for the player to move."""
    mover = int(state[2]) & 1
    score = games.final_scores(game, state)[mover]
    lead = int(state[mover]).bit_count() - int(state[1 - mover]).bit_count()
    return int(score) * (WON + depth) if abs(score) == 1.0 else lead * marble


def minimax(game: Game, state: State, depth: int, name: str, *, quiet: bool = False) -> int:
    """Value for the player to move, without any cut."""
    chosen = evaluation(name)  # type: ignore[arg-type]
    if core.is_over(game, state):
        return finished(game, state, chosen.marble, depth)
    mover = int(state[2]) & 1
    if depth == 0:
        stand = evaluate(chosen.weights, state[mover], state[1 - mover])
        tries = captures_only(game, state).values() if quiet else ()
        return max([stand, *(-minimax(game, child, 0, name, quiet=True) for child in tries)])
    return max(-minimax(game, child, depth - 1, name, quiet=quiet) for child in children(game, state).values())


def values_of_moves(game: Game, state: State, depth: int, name: str, *, quiet: bool = False) -> dict[int, int]:
    return {action: -minimax(game, child, depth - 1, name, quiet=quiet) for action, child in children(game, state).items()}


def assert_same(game: Game, state: State, options: SearchOptions, depth: int, wanted: dict[int, int]) -> None:
    """The best moves are found with their value; of others no more is claimed than is true."""
    searched = think(game, state, plies(depth), options)
    best = max(wanted.values())
    where = f"{options}\n{game.draw(state)}"
    assert searched.values.max() == best, where
    assert set(searched.best().tolist()) == {action for action, value in wanted.items() if value == best}, where
    for action, value in zip(searched.actions.tolist(), searched.values.tolist(), strict=True):
        assert value >= wanted[action], where


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simple", "strong", "centre_of_mass"])
def test_values_are_those_of_plain_minimax(name: str, battles: list[State]) -> None:
    game = games.make("abalone")
    for state, depth in [*((state, 1) for state in battles), *((state, 2) for state in battles[::8])]:
        wanted = values_of_moves(game, state, depth, name)
        for switched in ({}, dict.fromkeys(SWITCHES, False)):
            assert_same(game, state, SearchOptions(evaluation=name, **switched), depth, wanted)  # type: ignore[arg-type]


@pytest.mark.slow
def test_with_quiescence_captures_are_played_out_or_declined() -> None:
    game, differing = Abalone(), 0
    fights = [state for state in middle_games(game, 60, seed=2) if captures_only(game, state)]
    for state in fights[:6]:
        wanted = values_of_moves(game, state, 1, "simple", quiet=True)
        for switched in ({}, dict.fromkeys(SWITCHES, False)):
            assert_same(game, state, SearchOptions(quiescence=True, **switched), 1, wanted)  # type: ignore[arg-type]
        differing += wanted != values_of_moves(game, state, 1, "simple")
    assert differing > 0


@pytest.mark.slow
@pytest.mark.parametrize("quiescence", [False, True])
def test_no_switch_changes_a_value(quiescence: bool, battles: list[State]) -> None:
    game = games.make("abalone")
    for number, flags in enumerate(itertools.product((False, True), repeat=len(SWITCHES))):
        options = SearchOptions(quiescence=quiescence, **dict(zip(SWITCHES, flags, strict=True)))  # type: ignore[arg-type]
        for state, depth in ((battles[number % len(battles)], 3), (battles[(7 * number) % len(battles)], 2)):
            plain = think(game, state, plies(depth), PLAIN.model_copy(update={"quiescence": quiescence}))
            searched = think(game, state, plies(depth), options)
            assert searched.values.max() == plain.values.max()
            assert searched.best().tolist() == plain.best().tolist()


@pytest.mark.slow
@pytest.mark.parametrize("quiescence", [False, True])
@pytest.mark.parametrize("left", [1, 2, 3, 4, 5])
def test_no_switch_changes_a_value_near_the_cap_on_plies(left: int, quiescence: bool, battles: list[State]) -> None:
    for state in battles[::5]:
        game = games.make("abalone", ply_cap=int(state[2]) + left)
        plain, switched = (
            think(game, state, plies(4), options.model_copy(update={"quiescence": quiescence}))
            for options in (PLAIN, SearchOptions())
        )
        assert switched.values.max() == plain.values.max()
        assert switched.best().tolist() == plain.best().tolist()


def test_components_of_the_search_save_nodes(battles: list[State]) -> None:
    game = games.make("abalone")
    spent = {
        name: sum(think(game, state, plies(3), options).nodes for state in battles[::4])
        for name, options in (("plain", PLAIN), ("all", SearchOptions()))
    }
    assert 2 * spent["all"] < spent["plain"]


def test_the_sixth_capture_outranks_everything_and_quicker_wins_score_higher(at: Callable[..., State]) -> None:
    game = games.make("abalone")
    for depth in (1, 2, 3):
        searched = think(game, at(*ONE_TO_GO, plies=20), plies(depth), SearchOptions())
        assert [game.action_name(at(*ONE_TO_GO), int(action)) for action in searched.best()] == ["E3W"]
        assert searched.values.max() == WON + depth - 1


def test_at_the_ply_cap_only_marbles_count(at: Callable[..., State]) -> None:
    state = at("E4 E5 E6", "A1 I9", 9)
    last = think(games.make("abalone", ply_cap=10, captures=14), state[[1, 0, 2]], plies(1), SearchOptions())
    assert set(last.values.tolist()) == {evaluation("simple").marble}


def test_a_player_without_moves_loses_with_stalemate_loses(at: Callable[..., State]) -> None:
    state = at("A2 B1 C3", "A1", 2)  # C3SW locks A1 in
    for loses in (False, True):
        game = games.make("abalone", stalemate_loses=loses, captures=14)
        wanted = values_of_moves(game, state, 1, "simple")
        assert wanted[game.parse_action(state, "C3SW")] == (WON if loses else 2 * evaluation("simple").marble)
        assert_same(game, state, SearchOptions(), 1, wanted)


def test_a_node_budget_is_kept_and_determines_the_depth(battles: list[State]) -> None:
    game = games.make("abalone")
    for state in battles[::6]:
        depths = []
        for nodes in (1, 1_000, 10_000, 100_000):
            searched = think(game, state, Budget(nodes, "nodes"), SearchOptions())
            assert searched.nodes <= max(nodes, 1 + len(searched.actions))
            complete = think(game, state, plies(searched.depth), SearchOptions())
            assert complete.values.max() == searched.values.max()
            assert complete.best().tolist() == searched.best().tolist()
            depths.append(searched.depth)
        assert depths == sorted(depths)
        assert depths[0] == 1 < depths[-1]


def test_a_time_budget_returns_the_last_completed_depth() -> None:
    game = games.make("abalone")
    state = games.new_state(game)
    searched = think(game, state, Budget(20, "ms"), SearchOptions())
    complete = think(game, state, plies(searched.depth), SearchOptions())
    assert searched.best().tolist() == complete.best().tolist()


@pytest.mark.parametrize("budget", [Budget(1, "ms"), Budget(1, "nodes")])
def test_a_budget_that_is_over_at_once_completes_the_first_depth(budget: Budget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zerofleet.agents.by_game.abalone.thinking.threading.Timer", Elapsed)
    game = games.make("abalone")
    searched = think(game, games.new_state(game), budget, SearchOptions())
    assert searched.depth == 1
    complete = think(game, games.new_state(game), plies(1), SearchOptions())
    assert searched.values.tolist() == complete.values.tolist()


def test_a_search_with_a_budget_ends_with_the_game_or_a_proof(at: Callable[..., State]) -> None:
    state = games.new_state(games.make("abalone"))
    assert think(games.make("abalone", ply_cap=2), state, Budget(3_600_000, "ms"), SearchOptions()).depth == 2
    assert think(games.make("abalone"), at(*ONE_TO_GO, plies=20), Budget(3_600_000, "ms"), SearchOptions()).depth == 1
