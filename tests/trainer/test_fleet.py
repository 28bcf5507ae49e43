"""Who sends what: one worker that floods, one that is broken, and the many honest ones between them."""

from __future__ import annotations

import heapq
import zlib

import numpy as np
import pytest

from trainer import fleet as module
from trainer.fleet import ABSENCE_S, Fleet
from zerofleet.errors import RecordRejected
from zerofleet.telemetry import metrics

MAX_PLIES = 42
WINDOW = SHARE_WINDOW = 250
MAX_WORKERS = 100


@pytest.fixture(autouse=True)
def smaller(monkeypatch):
    """Windows of a quarter, so that the tests are quick."""
    monkeypatch.setattr(module, "WINDOW", WINDOW)
    monkeypatch.setattr(module, "SHARE_WINDOW", SHARE_WINDOW)
    monkeypatch.setattr(module, "MAX_WORKERS", MAX_WORKERS)


def honest(rng: np.random.Generator) -> tuple[list[int], list[float]]:
    """A game such as self-play makes: 10 to 42 plies, the first seat ahead, openings of some variety."""
    plies = int(np.clip(rng.normal(28, 6), 10, MAX_PLIES))
    score = float(rng.choice([1.0, 0.0, -1.0], p=[0.55, 0.1, 0.35]))
    return rng.integers(0, 7, plies).tolist(), [score, -score]


def short(rng: np.random.Generator) -> tuple[list[int], list[float]]:
    moves, scores = honest(rng)
    return moves[:7], scores


def one_opening(rng: np.random.Generator) -> tuple[list[int], list[float]]:
    moves, scores = honest(rng)
    return [3, 3, 3, 3, 3, 2, *moves[6:]], scores


def always_lost(rng: np.random.Generator) -> tuple[list[int], list[float]]:
    moves, _ = honest(rng)
    return moves, [-1.0, 1.0]


def play(fleet: Fleet, sources: dict, games: int, *, seed: int = 1) -> dict[str, list[str]]:
    """Let every worker send so many games in turn; return the reasons of the refused ones."""
    refused: dict[str, list[str]] = {name: [] for name in sources}
    luck = {name: np.random.default_rng([seed, zlib.crc32(name.encode())]) for name in sources}
    for _ in range(games):
        for name, game in sources.items():
            try:
                fleet.admit(name, *game(luck[name]))
            except RecordRejected as error:
                refused[name].append(error.reason)
    return refused


@pytest.mark.parametrize(("broken", "trait"), [(short, "length"), (one_opening, "opening"), (always_lost, "outcome")])
def test_a_worker_unlike_all_others_is_the_only_suspect(broken, trait):
    fleet = Fleet(max_plies=MAX_PLIES)
    refused = play(fleet, {"a": honest, "b": honest, "bad": broken}, WINDOW + 50)
    assert set(fleet.suspects) == {"bad"}
    assert fleet.suspects["bad"].startswith(f"{trait} of its last {WINDOW} games differs")
    assert not any(refused.values())  # it is said, and nothing is done
    assert metrics.SUSPECT_WORKERS._value.get() == 1


def test_games_of_a_worker_in_quarantine_are_refused_until_they_resemble_the_others():
    fleet = Fleet(max_plies=MAX_PLIES, quarantines=True)
    refused = play(fleet, {"a": honest, "b": honest, "bad": short}, WINDOW + 200)
    assert set(refused["bad"]) == {"quarantine"}
    assert 150 <= len(refused["bad"]) <= 250
    assert not refused["a"]
    assert not refused["b"]
    play(fleet, {"a": honest, "b": honest, "bad": honest}, WINDOW, seed=2)
    assert fleet.suspects == {}
    assert not any(play(fleet, {"bad": honest}, 5, seed=3).values())


def test_a_worker_that_sends_most_of_the_games_does_not_make_the_others_suspect():
    fleet = Fleet(max_plies=MAX_PLIES)
    for _ in range(9):
        play(fleet, {"bad": short}, WINDOW // 5)
    play(fleet, {"a": honest, "b": honest, "c": honest, "bad": short}, WINDOW + 50)
    assert set(fleet.suspects) == {"bad"}


def test_honest_workers_with_different_settings_are_not_suspect():
    """One resigns earlier, one draws more, one is new and has sent its short games first."""

    def resigns(rng):
        moves, scores = honest(rng)
        return moves[: int(0.8 * len(moves))], scores

    def drawish(rng):
        moves, scores = honest(rng)
        return moves, [0.0, 0.0] if rng.random() < 0.4 else scores

    fleet = Fleet(max_plies=MAX_PLIES, quarantines=True)
    sources = {"a": honest, "b": honest, "resigns": resigns, "drawish": drawish}
    assert not any(play(fleet, sources, 2 * WINDOW).values())
    rng = np.random.default_rng(4)
    playing = [(len(game[0]), number, game) for number, game in enumerate(honest(rng) for _ in range(3 * WINDOW))]
    heapq.heapify(playing)  # by the time at which they end; each that ends makes room for another
    for number in range(6 * WINDOW):
        now, _, game = playing[0]
        fleet.admit("new", *game)
        following = honest(rng)
        heapq.heapreplace(playing, (now + len(following[0]), 3 * WINDOW + number, following))
    assert fleet.suspects == {}


def test_workers_that_left_are_no_measure_for_those_that_play_after_them():
    now_s = 0.0
    fleet = Fleet(max_plies=MAX_PLIES, quarantines=True, clock=lambda: now_s)
    play(fleet, {f"{name}-1": honest for name in "abcd"}, WINDOW + 50)
    now_s += ABSENCE_S
    assert not any(play(fleet, {f"{name}-2": one_opening for name in "abcd"}, 2 * WINDOW).values())
    assert not fleet.suspects


def test_of_only_two_workers_neither_is_suspect():
    fleet = Fleet(max_plies=MAX_PLIES, quarantines=True)
    assert not any(play(fleet, {"a": honest, "bad": short}, 2 * WINDOW).values())
    assert fleet.suspects == {}


def test_games_of_a_worker_beyond_its_share_are_refused_and_those_of_others_accepted():
    fleet = Fleet(max_plies=MAX_PLIES, share_max=0.5)
    sent = {"greedy": honest, "a": honest, "b": honest}
    for seed in range(6):
        play(fleet, {"greedy": honest}, SHARE_WINDOW, seed=seed)
        refused = play(fleet, sent, 20, seed=seed)
        assert not refused["a"]
        assert not refused["b"]
    assert sum(name == "greedy" for name in fleet._admitted) <= SHARE_WINDOW // 2
    assert set(play(fleet, {"greedy": honest}, 200)["greedy"]) == {"quota"}


def test_a_single_worker_may_send_all_games():
    fleet = Fleet(max_plies=MAX_PLIES, share_max=0.1)
    assert not any(play(fleet, {"only": honest}, 2 * SHARE_WINDOW).values())


def test_without_a_bound_one_worker_may_send_all_games_beside_another():
    fleet = Fleet(max_plies=MAX_PLIES)
    play(fleet, {"idle": honest}, 1)
    assert not any(play(fleet, {"busy": honest}, 2 * SHARE_WINDOW).values())


def test_the_last_worker_of_several_may_send_all_games_once_the_others_are_absent():
    now_s = 0.0
    fleet = Fleet(max_plies=MAX_PLIES, share_max=0.5, clock=lambda: now_s)
    play(fleet, {"gone": honest, "left": honest}, SHARE_WINDOW)
    now_s += ABSENCE_S - 1.0
    assert set(play(fleet, {"left": honest}, 100)["left"]) == {"quota"}
    now_s += 1.0
    assert not play(fleet, {"left": honest}, 2 * SHARE_WINDOW)["left"]
    play(fleet, {"gone": honest}, 1)
    assert set(play(fleet, {"left": honest}, 100)["left"]) == {"quota"}


def test_the_number_of_remembered_workers_is_bounded():
    fleet = Fleet(max_plies=MAX_PLIES)
    rng = np.random.default_rng(6)
    game = honest(rng)
    for number in range(MAX_WORKERS + 50):
        fleet.admit(f"w{number}", *game)
    assert len(fleet._workers) == MAX_WORKERS
    assert len(fleet._shares) <= SHARE_WINDOW


def test_a_suspect_that_is_forgotten_is_no_longer_counted():
    fleet = Fleet(max_plies=MAX_PLIES)
    play(fleet, {"a": honest, "b": honest, "bad": short}, WINDOW + 50)
    assert metrics.SUSPECT_WORKERS._value.get() == 1
    play(fleet, {f"w{number}": honest for number in range(MAX_WORKERS)}, 1)
    assert metrics.SUSPECT_WORKERS._value.get() == 0
